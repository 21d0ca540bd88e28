"""The collective strategy, and each part of it turned off in turn: program_deeprec_parts.py FOLDER, on two ranks."""
import glob
import os
import sys

import numpy as np
import tensorflow.compat.v1 as tf
from mpi4py import MPI

import sok1x
from sok1x import communication, deeprec
from sok1x.checkpoint import CheckpointError
from sok1x.deeprec import sessions, strategy

tf.logging.set_verbosity(tf.logging.ERROR)
folder = sys.argv[1]


class Model:
    """A table whose row of key 3 loses the gradient, rank + 1, and a dense variable that does so."""

    def __init__(self, table=True):
        self.dense = tf.get_variable("dense", initializer=10.0 + rank)
        self.loss = self.dense * (rank + 1)
        if table:
            items = deeprec.get_embedding_variable("items", 1, initializer=0.0)
            self.row, = deeprec.group_embedding_lookup([items], [tf.constant([3], tf.int64)])
            self.loss += tf.reduce_sum(self.row) * (rank + 1)
        self.train = tf.train.GradientDescentOptimizer(1.0).minimize(self.loss, tf.train.get_or_create_global_step())


def trained(table=True, **off):
    """[dense, row] after one step; each strategy has a graph of its own."""
    deeprec.enable_distributed_strategy("collective", **off)
    with tf.Graph().as_default(), tf.Session() as session:
        model = Model(table)
        session.run(tf.global_variables_initializer())
        session.run(model.train)
        found = session.run([model.dense] + ([model.row[0, 0]] if table else []))
    deeprec.disable_distributed_strategy()
    return [float(each) for each in found]


deeprec.enable_distributed_strategy()
rank, ranks = communication.rank(), communication.num_ranks()
deeprec.disable_distributed_strategy()
assert ranks == 2
assert trained() == [8.5, -1.5]
assert trained(table=False) == [8.5]
assert trained(average_gradients=False) == [10 - (rank + 1), -3]  # as one's own Horovod would have it
assert trained(broadcast_variables=False) == [8.5 + rank, -1.5]

# Gradients by tf.gradients, clipped, and applied: averaged once.
deeprec.enable_distributed_strategy()
with tf.Graph().as_default(), tf.Session() as session:
    model = Model()
    found = tf.gradients(model.loss, [model.dense])
    clipped = [tf.clip_by_value(each, -1e3, 1e3) for each in found]
    step = tf.train.MomentumOptimizer(1.0, 0.9).apply_gradients(zip(clipped, [model.dense]))
    session.run(tf.global_variables_initializer())
    session.run(step)
    assert session.run(model.dense) == 8.5
deeprec.disable_distributed_strategy()

# So are those of Keras' optimizers, and what is initialized may be listed in another order on each rank, as Keras does.
deeprec.enable_distributed_strategy()
with tf.Graph().as_default(), tf.Session() as session:
    first, second = [tf.get_variable(name, initializer=[value + rank] * 2, use_resource=True)
                     for name, value in (("first", 10.0), ("second", 20.0))]
    keras = getattr(tf.keras.optimizers, "legacy", tf.keras.optimizers)
    step = keras.SGD(1.0).get_updates(tf.reduce_sum(first * (rank + 1) + second * rank), [first, second])
    session.run([each.initializer for each in tf.global_variables()])
    session.run(tf.variables_initializer([first, second][::1 - 2 * rank]))
    session.run(step)
    np.testing.assert_array_equal(session.run([first, second]), [[8.5] * 2, [19.5] * 2])
deeprec.disable_distributed_strategy()

# A table's gradient, a mean now, is still known as that of this rank's rows: of key 3, which rank 1 has.
deeprec.enable_distributed_strategy()
with tf.Graph().as_default(), tf.Session() as session:
    model = Model()
    optimizer = tf.train.GradientDescentOptimizer(1.0)
    gradients, variables = zip(*optimizer.compute_gradients(model.loss))
    clipped, norm = sok1x.clip_by_global_norm(gradients, 1.0)
    step = optimizer.apply_gradients(zip(clipped, variables))
    session.run(tf.global_variables_initializer())
    np.testing.assert_allclose(session.run([norm, step])[0], 4.5 ** 0.5)
    np.testing.assert_allclose(session.run([model.dense, model.row[0, 0]]), [10 - 0.5 ** 0.5, -0.5 ** 0.5], rtol=1e-6)
for gradients_of in (lambda model: next(zip(*optimizer.compute_gradients(model.loss))),
                     lambda model: tf.gradients(model.loss, tf.trainable_variables())):
    with tf.Graph().as_default(), tf.Session() as session:  # TensorFlow's own function, as scripts have it
        model = Model()
        clipped, norm = tf.clip_by_global_norm(gradients_of(model), 1.0)
        step = optimizer.apply_gradients(zip(clipped, tf.trainable_variables()))
        session.run(tf.global_variables_initializer())
        np.testing.assert_allclose(session.run([norm, step])[0], 4.5 ** 0.5)
        np.testing.assert_allclose(session.run([model.dense, model.row[0, 0]]), [10 - 0.5 ** 0.5, -0.5 ** 0.5], 1e-6)
        # What is no gradient stays this rank's.
        assert session.run(tf.clip_by_global_norm([model.dense * 0 + rank + 3], 1e9)[0]) == [rank + 3]
# In a branch that is a function (control flow v2) gradients are averaged as outside.
of_old = tf.control_flow_v2_enabled()
tf.enable_control_flow_v2()
for with_table in (True, False):
    with tf.Graph().as_default(), tf.Session() as session:
        loss = Model().loss if with_table else 0.0  # whose ops are the first of their kinds, outside
        weight, moves = tf.get_variable("weight", initializer=10.0 + rank, use_resource=True), tf.placeholder(tf.bool)
        found = tf.gradients(weight * (rank + 1.0) + loss, [weight])
        step = tf.cond(moves, lambda: tf.group(optimizer.apply_gradients(zip(found, [weight]))), tf.no_op)
        session.run(tf.global_variables_initializer())
        for moved, expected in ((True, 8.5), (False, 8.5), (True, 7.0)):
            session.run(step, {moves: moved})
            assert session.run(weight) == expected
if not of_old:
    tf.disable_control_flow_v2()

# A row of a plain variable, too, counts once: of 64 rows ranks gather slices, and of key 5 both have one.
for with_table in (True, False):
    with tf.Graph().as_default(), tf.Session() as session:
        model = Model()
        rows = tf.get_variable("rows", [64, 1], initializer=tf.zeros_initializer(), use_resource=True)
        loss = tf.reduce_sum(tf.gather(rows, [5, 6 + rank]) * (rank + 1)) + (model.loss if with_table else 0.0)
        trained_by_loss = [each for each in tf.trainable_variables() if with_table or each is rows]
        clipped, norm = tf.clip_by_global_norm(tf.gradients(loss, trained_by_loss), 1.0)
        step = optimizer.apply_gradients(zip(clipped, trained_by_loss))
        session.run(tf.global_variables_initializer())
        expected = np.sqrt(1.5 ** 2 + 0.5 ** 2 + 1.0 ** 2 + (4.5 if with_table else 0))
        np.testing.assert_allclose(session.run([norm, step])[0], expected, rtol=1e-6)
        np.testing.assert_allclose(session.run(rows)[5:8, 0], -np.array([1.5, 0.5, 1.0]) / expected, rtol=1e-6)
with tf.Graph().as_default():
    pairs = [(tf.clip_by_norm(each, 1.0), variable) for each, variable in optimizer.compute_gradients(Model().loss)]
    try:
        optimizer.apply_gradients(pairs)
        raise AssertionError("each rank has clipped by a norm of its own")
    except ValueError as error:
        assert "table 'items': got a gradient scaled" in str(error), error
deeprec.disable_distributed_strategy()


def monitored(name, last, table=True, **arguments):
    """(the step that a session begins at, dense at the end) in a folder of that name."""
    with tf.Graph().as_default():
        model = Model(table)
        step = tf.train.get_global_step()
        with tf.train.MonitoredTrainingSession(
                checkpoint_dir=os.path.join(folder, name), hooks=[tf.train.StopAtStepHook(last_step=last)],
                save_checkpoint_steps=100, log_step_count_steps=None, **arguments) as session:
            begins = session.run_step_fn(lambda step_context: step_context.session.run(step))
            while not session.should_stop():
                session.run(model.train)
                dense = session.run_step_fn(lambda step_context: step_context.session.run(model.dense))
    return int(begins), float(dense)


# Without tables one rank writes, and all go on from there.
deeprec.enable_distributed_strategy()
assert monitored("dense", 2, False, is_chief=rank == 0) == (0, 7.0)
assert monitored("dense", 3, False) == (2, 5.5)  # when a session is over on any rank, rank 0 has written the last one
MPI.COMM_WORLD.Barrier()
assert not glob.glob(os.path.join(folder, "dense", "*tempstate*"))
assert monitored("tables", 2) == (0, 7.0)
assert monitored("tables", 3) == (2, 5.5)
deeprec.disable_distributed_strategy()

# Hooks that cannot be followed are rank 0's alone; what others have would be written over it.
class Mine(tf.train.CheckpointSaverHook):
    """A class of the user's."""


def hooked(name, *hooks, **arguments):
    """(steps of the checkpoints in a folder, the sum of `own` over ranks in the last) after four steps."""
    with tf.Graph().as_default():
        model = Model(False)
        own = tf.get_variable("own", initializer=5.0, trainable=False)  # as a moving mean, each rank's own
        train = tf.group(model.train, tf.assign(own, 5.0 + rank))
        with tf.train.MonitoredTrainingSession(
                hooks=[tf.train.StopAtStepHook(num_steps=4)] + list(hooks), log_step_count_steps=None,
                save_summaries_steps=None, **arguments) as session:
            while not session.should_stop():
                session.run(train)
    path = os.path.join(folder, name)
    paths = tf.train.get_checkpoint_state(path).all_model_checkpoint_paths
    assert tf.train.load_variable(paths[-1], "own") == 5, rank
    return [int(each.split("-")[-1]) for each in paths]


def saver_hook(name, kind=tf.train.CheckpointSaverHook, steps=3):
    return kind(os.path.join(folder, name), save_steps=steps)


deeprec.enable_distributed_strategy()
assert hooked("stock", saver_hook("stock")) == [0, 3, 4]
assert hooked("mine", saver_hook("mine", Mine)) == [0, 3, 4]
assert hooked("alone", *[saver_hook("alone")] * (rank == 0)) == [0, 3, 4]
assert hooked("clocks", saver_hook("clocks", steps=3 + rank)) == [0, 3, 4]
assert hooked("given", checkpoint_dir=os.path.join(folder, "given"),
              **({"save_checkpoint_steps": 3} if rank == 0 else {})) == [0, 3, 4]
with tf.Graph().as_default():  # one hook, two sessions of one graph
    model = Model(False)
    hook = tf.train.CheckpointSaverHook(os.path.join(folder, "twice"), save_steps=2, saver=tf.train.Saver())
    for last in (3, 6):
        with tf.train.MonitoredTrainingSession(hooks=[tf.train.StopAtStepHook(num_steps=3), hook],
                                               log_step_count_steps=None, save_summaries_steps=None) as session:
            while not session.should_stop():
                session.run(model.train)
assert hook._saver is not None and not {"_get_saver", "_save", "end"} & set(vars(hook))  # it is TensorFlow's again
hook = saver_hook("two")
for table in (False, True):  # a hook that has served a graph without tables saves those of the next one
    with tf.Graph().as_default():
        model = Model(table)
        with tf.train.MonitoredTrainingSession(hooks=[tf.train.StopAtStepHook(num_steps=3), hook],
                                               log_step_count_steps=None, save_summaries_steps=None) as session:
            while not session.should_stop():
                session.run(model.train)
assert os.path.exists(os.path.join(folder, "two", "model.ckpt-3", "manifest.json"))
with tf.Graph().as_default():
    model = Model(False)
    iterator = tf.data.make_initializable_iterator(tf.data.Dataset.range(100))
    tf.add_to_collection(tf.GraphKeys.SAVEABLE_OBJECTS, tf.data.experimental.make_saveable_from_iterator(iterator))
    tf.add_to_collection(tf.GraphKeys.TABLE_INITIALIZERS, iterator.initializer)
    try:
        with tf.train.MonitoredTrainingSession(checkpoint_dir=os.path.join(folder, "data"), save_checkpoint_steps=2):
            raise AssertionError("all ranks would go on where rank 0 has read")
    except CheckpointError as error:
        assert "would have a tf.data iterator" in str(error), error
deeprec.disable_distributed_strategy()

# Ranks that average nothing may run different numbers of steps.
deeprec.enable_distributed_strategy(average_gradients=False)
with tf.Graph().as_default():
    model = Model(False)
    with tf.train.MonitoredTrainingSession(
            checkpoint_dir=os.path.join(folder, "apart"), save_checkpoint_steps=2, log_step_count_steps=None,
            hooks=[tf.train.StopAtStepHook(num_steps=6 - 3 * rank)]) as session:
        while not session.should_stop():
            session.run(model.train)
deeprec.disable_distributed_strategy()

# Trees are grown without gradients, so that nothing would be averaged.
if tf.VERSION.startswith("1."):
    deeprec.enable_distributed_strategy()
    column = tf.feature_column.bucketized_column(tf.feature_column.numeric_column("x"), [0.5])
    trees = tf.estimator.BoostedTreesClassifier([column], 1, os.path.join(folder, "trees%d" % rank), n_trees=1)
    try:
        trees.train(lambda: ({"x": tf.constant([[0.0], [1.0]])}, tf.constant([[0], [1]])), steps=1)
        raise AssertionError("each rank has grown trees of its own")
    except ValueError as error:
        assert "training graph of tf.estimator's BoostedTrees estimators" in str(error), error
    deeprec.disable_distributed_strategy()

# Each rank's own Savers and folders, as TensorFlow has them.
deeprec.enable_distributed_strategy(whole_checkpoints=False)
assert monitored("own%d" % rank, 2) == (0, 7.0)
assert monitored("own%d" % rank, 3) == (2, 5.5)
with tf.Graph().as_default(), tf.Session() as session:
    model, saver = Model(), tf.train.Saver()
    if rank == 0:  # alone: nobody is asked
        session.run([variable.initializer for variable in tf.global_variables()])
        saver.save(session, os.path.join(folder, "alone"))
deeprec.disable_distributed_strategy()

# Not chief: such a session waits for another one, so it is only looked at.
deeprec.enable_distributed_strategy(all_chief=False)
given = dict(is_chief=rank == 0, chief_only_hooks=[1], hooks=None, checkpoint_dir=None, save_checkpoint_secs=None,
             save_checkpoint_steps=None)
with tf.Graph().as_default():
    assert sessions._arguments(dict(given), strategy.current())["is_chief"] == (rank == 0)
    every = sessions._arguments(dict(given), strategy.current()._replace(all_chief=True))
    assert every["is_chief"] and every["chief_only_hooks"] == ([1] if rank == 0 else None)
deeprec.disable_distributed_strategy()
try:
    deeprec.enable_distributed_strategy("localized")
    raise AssertionError("joined ranks went on alone")
except RuntimeError as error:
    assert "rank {} has joined 2 ranks already".format(rank) in str(error), error
np.testing.assert_array_equal(MPI.COMM_WORLD.allgather(rank), [0, 1])
print("rank {} of {} agrees".format(rank, ranks))

"""TensorFlow's own ways to save on several ranks, for test_checkpoint_stock.py; every value is known beforehand.

    mpiexec -np 2 python program_stock.py FOLDER CASE...

A case is a function below. Row k of the table is [10 k + n, ...] after n trainings, so no row is another rank's.
"""
import contextlib
import os
import shutil
import sys
import tempfile
import time

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python.training.saving import saveable_object_util

import sok1x as sok
from sok1x.checkpoint import CheckpointError, writing
from sok1x.checkpoint.errors import MismatchError
from sok1x.graph_ops.bridge.tensorflow_versions import V2

KEYS, DIM = 20, 3


class Model:
    """A table with a hash index, one without, a dense variable; in a graph and session of its own."""

    def __init__(self, rank, ranks, start=True):
        self.graph = tf.Graph()
        with self.graph.as_default():
            self.number = tf.train.get_or_create_global_step()
            layers = [sok.All2AllDenseEmbedding(KEYS, DIM, 1, 1, embedding_initializer="zeros", use_hashtable=hashed)
                      for hashed in (True, False)]
            self.table = layers[0].embedding_variable
            self.weights = tf.get_variable("weights", [2], initializer=tf.zeros_initializer(), use_resource=True)
            mine = np.arange(KEYS)[rank::ranks].reshape(-1, 1, 1)
            first = tf.cast(tf.equal(self.number, 0), tf.float32)
            loss = sum(tf.reduce_sum(layer(mine, training=True)[:, 0, 0] * -(1 + first * (10 * mine[:, :, 0])))
                       for layer in layers)
            applied = tf.train.MomentumOptimizer(1.0, 0.0).minimize(loss, self.number, var_list=[
                layer.embedding_variable for layer in layers])
            with tf.control_dependencies([applied]):
                self.step = tf.group(self.weights.assign_add([1.0, 1.0]))
            every = np.arange(KEYS).reshape(-1, 1, 1)
            self.values = [layer(every, training=False)[:, 0, 0] for layer in layers] + [self.weights]
            self.start = sok.Init(global_batch_size=1)
            self.initialize = tf.global_variables_initializer()
        if start:
            self.session = tf.Session(graph=self.graph)
            self.session.run(self.start)
            self.session.run(self.initialize)

    def train(self, steps):
        for _ in range(steps):
            self.session.run(self.step)
        return self

    def check(self, trained, values=None):
        hashed, direct, weights = self.session.run(self.values) if values is None else values
        wanted = (np.arange(KEYS)[:, None] * 10 + trained) * (trained > 0) + np.zeros([1, DIM])
        np.testing.assert_array_equal(hashed, wanted)
        np.testing.assert_array_equal(direct, wanted)
        np.testing.assert_array_equal(weights, [trained] * 2)

    def saver(self, *arguments, **options):
        with self.graph.as_default():
            return tf.train.Saver(*arguments, **options)


def refused(kind, call, *words):
    """The call raises an error of the kind, which says the words."""
    try:
        call()
    except kind as error:
        text = str(getattr(error, "message", error))
        assert all(word in text for word in words), text
    else:
        raise AssertionError("{} was expected: {}".format(kind, words))


@contextlib.contextmanager
def warnings_of_tensorflow():
    """Inside, what TensorFlow's log is told of rows that stay is kept in the list, and not printed."""
    said = []

    def keep(record):
        text = record.getMessage()
        said.extend([text] if "rows stay as they are" in text else [])
        return "rows stay as they are" not in text

    logger = tf.get_logger()
    level = logger.level
    logger.addFilter(keep)
    logger.setLevel("WARNING")
    yield said
    logger.setLevel(level)
    logger.removeFilter(keep)


def paths(folder, rank, ranks):
    """A relative folder, moved later; one name again and again; names of hooks and of the user; what is kept."""
    os.makedirs(folder, exist_ok=True)
    os.chdir(folder)
    model = Model(rank, ranks).train(1)
    saver = model.saver(max_to_keep=2)
    for step in (1, 2, 3):
        assert saver.save(model.session, "kept/mine", global_step=step) == "kept/mine-{}".format(step)
        model.train(1)
    assert tf.train.latest_checkpoint("kept") == "kept/mine-3"
    assert saver.last_checkpoints == ["kept/mine-2", "kept/mine-3"]
    assert not [name for name in os.listdir("kept") if "mine-1" in name]
    assert tf.train.checkpoint_exists("kept/mine-3") and tf.train.load_variable("kept/mine-3", "weights")[0] == 3
    yield
    if rank == 0:
        os.rename("kept", "moved")
        os.mkdir("mine-dir")
    yield
    other = Model(rank, ranks)
    other.saver().restore(other.session, tf.train.latest_checkpoint("moved"))
    other.check(3)
    for trained in (4, 5):
        other.train(1)
        other.saver().save(other.session, "same")
        again = Model(rank, ranks)
        again.saver().restore(again.session, os.path.join(os.getcwd(), "same"))
        again.check(trained)
    refused(CheckpointError, lambda: other.saver().save(other.session, "mine-dir"), "no checkpoint of sok1x")
    assert os.listdir("mine-dir") == []
    refused((ValueError, CheckpointError), lambda: other.saver().restore(other.session, "nowhere"), "nowhere")


def parts(folder, rank, ranks):
    """Savers of some variables: rows bring their keys; slots alone, and other names, are refused."""
    model = Model(rank, ranks).train(2)
    model.saver(model.graph.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES)).save(model.session, folder + "/rows")
    other = Model(rank, ranks)
    other.saver(other.graph.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES)).restore(other.session, folder + "/rows")
    other.check(2)
    refused(MismatchError, lambda: other.saver().restore(other.session, folder + "/rows"), "Momentum")
    with other.graph.as_default():
        model.saver().save(model.session, folder + "/all")
        refused(ValueError, lambda: tf.train.init_from_checkpoint(folder + "/all", {"/": "/"}), "without their keys")
    other.check(2)
    names = set(tf.train.load_checkpoint(folder + "/all").get_variable_to_shape_map())
    with other.graph.as_default(), warnings_of_tensorflow() as said:
        tf.train.Saver([one for one in tf.global_variables() if one.op.name in names]).restore(
            other.session, folder + "/all")  # as slim's assign_from_checkpoint_fn(..., ignore_missing_vars=True)
        tf.train.Saver([one for one in tf.global_variables() if "EmbeddingVariable_1" not in one.op.name]).restore(
            other.session, folder + "/all")
        tf.train.Saver().restore(other.session, folder + "/all")
    assert [("EmbeddingVariable', 'EmbeddingVariable_1'" in one, "table 'EmbeddingVariable_1', which" in one)
            for one in said] == ([(True, False), (False, True)] if rank == 0 else []), said
    with model.graph.as_default():
        slots = [one for one in tf.global_variables() if "Momentum" in one.name]
    refused(CheckpointError, lambda: model.saver(slots).save(model.session, folder + "/slots"), "not the rows")
    named = model.saver({"other": model.table})
    refused(CheckpointError, lambda: named.save(model.session, folder + "/named"), "'other'")
    dense = model.saver([model.weights])
    if rank == 0:  # no table: this rank's own business
        dense.save(model.session, folder + "/dense")
    assert not os.path.exists(folder + "/slots.index") and not os.path.exists(folder + "/named.index")


def reads(folder, rank, ranks):
    """Savers of tensors that read variables, as TensorFlow itself puts them in the variables' place: as of those."""
    model = Model(rank, ranks).train(2)
    forms = [saveable_object_util.op_list_to_dict]
    for read in (lambda one: one._graph_element, lambda one: one.value(), _read_through_identity):
        forms.append(lambda variables, read=read: {
            one.op.name: read(one) if hasattr(one, "handle") else one for one in variables})
    for number, form in enumerate(forms):
        path = "{}/{}".format(folder, number)
        with model.graph.as_default():
            named = form(tf.global_variables())
        model.saver(named if number % 2 else list(named.values())).save(model.session, path)
        for choose in (lambda variables: variables, form, lambda variables: list(form(variables).values())):
            other = Model(rank, ranks)
            with other.graph.as_default():
                chosen = choose(tf.global_variables())
            other.saver(chosen).restore(other.session, path)
            other.check(2)
    with model.graph.as_default():
        rows = [one._graph_element for one in tf.trainable_variables() if hasattr(one, "handle")]
        slots = [one._graph_element for one in tf.global_variables() if "Momentum" in one.name]
    model.saver(rows).save(model.session, folder + "/rows")  # their keys too
    other = Model(rank, ranks)
    other.saver(other.graph.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES)).restore(other.session, folder + "/rows")
    other.check(2)
    refused(CheckpointError, lambda: model.saver(slots).save(model.session, folder + "/slots"), "not the rows")
    named = model.saver({"other": model.table.value()})
    refused(CheckpointError, lambda: named.save(model.session, folder + "/named"), "'other'")
    dense = model.saver([model.weights._graph_element])
    if rank == 0:  # no table: this rank's own business
        dense.save(model.session, folder + "/dense")
    assert not os.path.exists(folder + "/slots.index") and not os.path.exists(folder + "/named.index")


def _read_through_identity(variable):
    if not getattr(variable, "is_shard", False):
        return variable  # of which TensorFlow would make another name, that of the Identity
    return tf.raw_ops.ReadVariableOp(resource=tf.identity(variable.handle), dtype=variable.dtype)


def swapping(folder, rank, ranks):
    """tf.contrib.opt's Saver that gives averages the variables' names, as TensorFlow's hook saves by it: refused."""
    if V2:
        return  # it has no tf.contrib
    from tensorflow.contrib.opt import MovingAverageOptimizer
    with tf.Graph().as_default():
        table = sok.Variable(np.ones([4, 1], np.float32), name="table")
        average = MovingAverageOptimizer(tf.train.GradientDescentOptimizer(0.1), 0.5)
        loss = tf.reduce_sum(sok.all2all_dense_embedding(table, tf.constant([0, 1, 1, 2], tf.int64)))
        sok.DistributedOptimizer(average, average=False).minimize(loss, tf.train.get_or_create_global_step())
        scaffold = tf.train.Scaffold(saver=average.swapping_saver())
        refused(CheckpointError, lambda: tf.train.MonitoredTrainingSession(
            checkpoint_dir=folder, scaffold=scaffold, hooks=[sok.InitHook(global_batch_size=1)]),
            "it gives 'table' another name, 'table/ExponentialMovingAverage'", "or a tf.train.Saver of all variables")
    assert not [name for name in os.listdir(folder) if name.startswith("model.ckpt")]


def own(folder, rank, ranks):
    """Each rank's own path: its own shard, which no other rank takes, and no other number of ranks."""
    mine, others = ["{}/rank-{}".format(folder, one) for one in (rank, (rank + 1) % ranks)]
    model = Model(rank, ranks).train(2)
    model.saver().save(model.session, mine)
    yield
    other = Model(rank, ranks)
    other.saver().restore(other.session, mine)
    other.check(2)
    other.train(1)
    refused(MismatchError, lambda: other.saver().restore(other.session, others), "rank {} of 2".format(1 - rank))
    refused(MismatchError, lambda: other.saver().restore(other.session, folder + "/rank-1"), "rank 1 of 2")
    other.check(3)


def failures(folder, rank, ranks):
    """One rank cannot write: all say so, and what was saved before is as it was."""
    model = Model(rank, ranks).train(2)
    saver = model.saver()
    saver.save(model.session, folder + "/model")
    model.train(1)
    end = writing.TableSink.end
    if rank == 1:
        def full(self):
            raise OSError(28, "No space left on device")
        writing.TableSink.end = full
    refused(CheckpointError, lambda: saver.save(model.session, folder + "/model"), "No space left")
    writing.TableSink.end = end
    other = Model(rank, ranks)
    other.saver().restore(other.session, folder + "/model")
    other.check(2)
    saver.save(model.session, folder + "/model")
    other.saver().restore(other.session, folder + "/model")
    other.check(3)
    assert not [name for name in os.listdir(folder) if name.startswith(".model")]


def clocks(folder, rank, ranks):
    """Checkpoints by time, where the ranks' clocks and runs differ."""
    for last in (30, 60):
        model = Model(rank, ranks, start=False)
        with model.graph.as_default():
            seen = []
            hooks = [sok.InitHook(global_batch_size=1), tf.train.StopAtStepHook(last_step=last)]
            with tf.train.MonitoredTrainingSession(
                    checkpoint_dir=folder, save_checkpoint_secs=0.02, hooks=hooks, save_summaries_steps=None,
                    log_step_count_steps=None) as session:
                while not session.should_stop():
                    session.run(model.step)
                    time.sleep(0.015 * rank)  # so that 0.02 s are over every few steps, however fast they are
                    seen.append(session.run_step_fn(lambda step_context: step_context.session.run(model.number))
                                if not session.should_stop() else last)
        assert seen[0] == last - 29 and seen[-1] == last
        steps = [int(path.split("-")[-1]) for path in
                 tf.train.get_checkpoint_state(folder).all_model_checkpoint_paths]
        assert steps[-1] == last and len(steps) == 5, steps
    final = Model(rank, ranks)
    final.saver().restore(final.session, tf.train.latest_checkpoint(folder))
    final.check(60)

    mine = tempfile.mkdtemp()  # as an Estimator without model_dir has it
    model = Model(rank, ranks, start=False)
    with model.graph.as_default():
        hooks = [sok.InitHook(global_batch_size=1), tf.train.StopAtStepHook(last_step=4)]
        with tf.train.MonitoredTrainingSession(checkpoint_dir=mine, hooks=hooks, save_checkpoint_secs=0.01) as session:
            while not session.should_stop():
                session.run(model.step)
    final.saver().restore(final.session, tf.train.latest_checkpoint(mine))
    final.check(4)
    shutil.rmtree(mine)


def keras(folder, rank, ranks):
    """Keras' weights, and tf.train.Checkpoint."""
    def build():
        tf.keras.backend.clear_session()
        with tf.keras.backend.get_session().as_default() as session:
            inputs = tf.keras.Input([1, 1], dtype="int64")
            layer = sok.All2AllDenseEmbedding(KEYS, DIM, 1, 1)
            # Dense weights are rank 0's, and here not trained: nothing in this model makes them equal on all ranks.
            head = tf.keras.layers.Dense(1, kernel_initializer="ones", trainable=False)
            model = tf.keras.Model(inputs, head(tf.keras.layers.Flatten()(layer(inputs, training=True))))
            session.run(sok.Init(global_batch_size=1))
            return model
    keys = np.arange(KEYS).reshape(-1, 1, 1)
    model = build()
    model.compile("sgd", "mse")
    model.fit(keys[rank::ranks], np.ones([KEYS // ranks, 1]), epochs=2, batch_size=KEYS, verbose=0)
    wanted = model.predict(keys, batch_size=KEYS)
    model.save_weights(folder + "/weights.h5")
    for save in model.save, lambda path: tf.keras.models.save_model(model, path):
        refused(CheckpointError, lambda: save(folder + "/model.h5"), "save_weights")
    with tf.keras.backend.get_session().as_default():
        refused(RuntimeError, lambda: tf.train.Checkpoint(table=model.layers[1].embedding_variable).save(folder + "/c"),
                "one rank's shard")
    weights = model.get_weights()
    model.set_weights(weights)
    weights[1] = np.where(weights[1][:, 1:] >= 0, weights[1] + np.array([1, 0]), weights[1])  # the index, of other keys
    refused(ValueError, lambda: model.set_weights(weights), "belong to other ranks", "rank {}".format(rank))
    np.testing.assert_array_equal(model.predict(keys, batch_size=KEYS), wanted)
    model = build()
    assert np.abs(model.predict(keys, batch_size=KEYS) - wanted).max() > 1e-3
    model.load_weights(folder + "/weights.h5")
    np.testing.assert_array_equal(model.predict(keys, batch_size=KEYS), wanted)
    refused(MismatchError, lambda: model.load_weights(folder + "/none.h5"), "none.h5")


def one_model_dir(folder, rank, ranks):
    """Horovod's recipe for Estimators: only rank 0 has a model_dir, the others a temporary one. And one for all."""
    os.makedirs(folder, exist_ok=True)
    made = tempfile.mkdtemp()
    model = Model(rank, ranks).train(1)
    mine = folder + "/model" if rank == 0 else made + "/model"
    refused(CheckpointError, lambda: model.saver().save(model.session, mine), "temporary folder", mine)
    assert os.listdir(folder) == [] and os.listdir(made) == []
    os.rmdir(made)
    for last in (2, 3):
        model = Model(rank, ranks, start=False)
        with model.graph.as_default():
            tf.summary.scalar("seen", model.weights[0])
            with tf.train.MonitoredTrainingSession(
                    checkpoint_dir=folder, save_summaries_steps=1, hooks=[
                        sok.InitHook(global_batch_size=1), tf.train.StopAtStepHook(last_step=last),
                        tf.train.ProfilerHook(save_steps=1, output_dir="{}/of {}".format(folder, rank))]) as session:
                while not session.should_stop():
                    session.run(model.step)
    tf.summary.FileWriterCache.clear()
    assert "timeline-2.json" in os.listdir("{}/of {}".format(folder, rank))
    yield
    files = [name for name in os.listdir(folder) if name.startswith("events")]
    assert len(files) == 1, files  # this process', for TensorFlow shares one for each folder
    steps = [event.step for event in tf.train.summary_iterator(os.path.join(folder, files[0]))
             for value in event.summary.value if value.tag == "seen"]
    assert steps == [1, 2, 3], steps


def rank_0_alone(folder, rank, ranks):
    """Horovod's recipe: only rank 0 has a checkpoint_dir. A Saver of dense variables is rank 0's own business."""
    def begin(**options):
        model = Model(rank, ranks, start=False)
        with model.graph.as_default():
            hooks = [sok.InitHook(global_batch_size=1)]
            if "saver" in options:
                saver = tf.train.Saver([model.weights])
                hooks += [tf.train.CheckpointSaverHook(folder, save_steps=1, saver=saver)] if rank == 0 else []
            with tf.train.MonitoredTrainingSession(
                    checkpoint_dir=options.get("folder"), save_checkpoint_secs=options.get("secs"), hooks=hooks,
                    log_step_count_steps=None, save_summaries_steps=None) as session:
                session.run(model.step)
    refused(CheckpointError, lambda: begin(folder=folder if rank == 0 else None, secs=600),
            "rank 1: none", "every rank's MonitoredTrainingSession the same checkpoint_dir")
    assert not [name for name in os.listdir(folder) if not name.startswith("events")] if rank == 0 else True
    begin(saver=True)
    assert rank or tf.train.list_variables(tf.train.latest_checkpoint(folder)) == [("weights", [2])]


def rank_0_alone_in_a_loop(folder, rank, ranks):
    """Only rank 0 calls a Saver; the others train on."""
    model = Model(rank, ranks).train(1)
    if rank == 0:
        model.saver().save(model.session, folder + "/model")
    model.train(3)


def main():
    from mpi4py import MPI
    rank, ranks = MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size
    for case in sys.argv[2:]:
        for _ in globals()[case](os.path.join(sys.argv[1], case), rank, ranks) or ():
            MPI.COMM_WORLD.Barrier()
        sys.stdout.write("rank {} did {}\n".format(rank, case))


if __name__ == "__main__":
    tf.logging.set_verbosity(tf.logging.ERROR)
    main()

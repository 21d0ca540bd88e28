"""TensorFlow's own Savers on several ranks, for test_checkpoint_stock.py; every value is known beforehand.

    mpiexec -np 2 python program_stock.py FOLDER CASE...

A case is a function below.
"""
import contextlib
import itertools
import os

import numpy as np
import tensorflow.compat.v1 as tf
from stock_model import DIM, Model, main, refused
from tensorflow.python.training.saving import saveable_object_util

import sok1x as sok
from sok1x.checkpoint import CheckpointError
from sok1x.checkpoint import __main__ as command
from sok1x.checkpoint.errors import MismatchError
from sok1x.checkpoint.files import writing
from sok1x.graph_ops.bridge.tensorflow_versions import V2


@contextlib.contextmanager
def warnings_of_tensorflow():
    """Inside, what TensorFlow's log is told of rows that stay is kept in the list, and not printed."""
    said = []

    def keep(record):
        text = record.getMessage()
        said.extend([text] if "leaves the rows as they are" in text else [])
        return "leaves the rows as they are" not in text

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
    assert command._find("kept", None) == "kept/mine-3"  # of python -m sok1x.checkpoint
    assert not [name for name in os.listdir("kept") if "mine-1" in name]
    assert tf.train.checkpoint_exists("kept/mine-3") and tf.train.load_variable("kept/mine-3", "weights")[0] == 3
    yield
    if rank == 0:
        os.rename("kept", "moved")
        os.makedirs("mine-dir/notes")
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
    assert os.listdir("mine-dir") == ["notes"]
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
    assert ["tables 'EmbeddingVariable', 'EmbeddingVariable_1', which" in one for one in said] == (
        [True] if rank == 0 else []), said
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


def without(prefix, name):
    """A checkpoint as a sok1x has saved it that did not save `name`."""
    reader = tf.train.NewCheckpointReader(prefix)
    kept = sorted(set(reader.get_variable_to_shape_map()) - {name})
    with tf.Graph().as_default(), tf.Session() as session:
        session.run(tf.raw_ops.SaveV2(
            prefix=prefix + "-without", tensor_names=kept, shape_and_slices=[""] * len(kept),
            tensors=[tf.constant(reader.get_tensor(one)) for one in kept]))
    return prefix + "-without"


def own_mixed(folder, rank, ranks):
    """Each rank's own path, of which one is of another save; and those of a sok1x before saves had tokens."""
    first, second = ["{}/{}-{}".format(folder, one, rank) for one in ("first", "second")]
    model = Model(rank, ranks)
    saver = model.saver()
    for path in (first, second):
        saver.save(model.train(1).session, path)
    model.train(1)
    saver.restore(model.session, second)
    refused(MismatchError, lambda: saver.restore(model.session, [first, second][rank]),
            "The ranks restore different checkpoints: ", "/first-0", "/second-1")
    model.check(2)
    former = without(first, "sok1x/save")
    yield
    saver.restore(model.session, former)
    refused(MismatchError, lambda: saver.restore(model.session, [first, former][rank]),
            "The ranks restore different checkpoints: ", "/first-0", "/first-1-without")
    model.check(1)
    assert set(tf.train.NewCheckpointReader(first).get_variable_to_shape_map()) - set(
        tf.train.NewCheckpointReader(former).get_variable_to_shape_map()) == {"sok1x/save"}


def own_otherwise(folder, rank, ranks):
    """Each rank's own path, to a table whose rows are dealt out otherwise; what has no note of that is taken."""
    mine, keys = "{}/otherwise-{}".format(folder, rank), np.arange(6)
    for mode in (None, "localized:1", "without", None):
        for name in (None, "renamed"):
            with tf.Graph().as_default(), tf.Session() as session:
                sok.init()
                table = sok.DynamicVariable(1, "0", name="dealt", init_capacity=8,
                                            mode=None if mode == "without" else mode)
                found = sok.all2all_dense_embedding(table, tf.constant(keys), training=False)[:, 0]
                put = sok.assign(table, tf.constant(keys[rank::ranks]), tf.ones([3, 1]))
                saver, path = tf.train.Saver({name: table} if name else None), mine + (name or "")
                session.run(tf.global_variables_initializer())
                if mode == "localized:1":
                    refused(MismatchError, lambda: saver.restore(session, path), "table 'dealt' on rank ",
                            "got rows that were dealt out otherwise (by key) from " + path,
                            "expected them all rows on rank 1", "sok.CheckpointManager")
                elif mode is None and not os.path.exists(path + ".index"):
                    session.run(put)
                    saver.save(session, path)
                else:
                    saver.restore(session, without(path, "sok1x/placements") if mode else path)
                    assert session.run(found).tolist() == [1] * 6, mode
    yield


def remembering(folder, rank, ranks):
    """Each rank's own path, to tables that remember keys that left, and did not when they were saved, and back."""

    def exported(session, tables):
        return [{key: row.tolist() for key, row in zip(*session.run(sok.export(table)))} for table in tables]

    for names, remembered in itertools.product(("", "own/"), ((0, 9), (9, 0), (9, 9))):
        mine = "{}/{}of-{}".format(folder, names, rank)
        with tf.Graph().as_default(), tf.Session() as session:
            sok.init()
            tables = [sok.DynamicVariable(DIM, "0", name="t{}".format(place), init_capacity=8, max_capacity=8,
                                          remember_evicted=remember) for place, remember in enumerate(remembered)]
            keys, number = tf.placeholder(tf.int64, [None]), tf.train.get_or_create_global_step()
            loss = tf.add_n([tf.reduce_sum(sok.all2all_dense_embedding(table, keys)) for table in tables])
            train = tf.train.GradientDescentOptimizer(1.0).minimize(loss, number)
            held = {names + one.op.name: one for one in tf.global_variables()} if names else None
            saver = tf.train.Saver(held, sharded=remembered[0] > 0)
            if remembered == (0, 9):
                session.run(tf.global_variables_initializer())
                for first in (0, 8):
                    session.run(train, {keys: np.arange(first, first + 8) * ranks + rank})
                saver.save(session, mine)
                saved = exported(session, tables)
                continue
            if remembered == (9, 9):  # what was noted here is void
                session.run(tf.global_variables_initializer())
                session.run(train, {keys: np.arange(8) * ranks + rank})
                session.run(train, {keys: np.arange(20, 23) * ranks + rank})
            saver.restore(session, mine)
            assert exported(session, tables) == saved and session.run(number) == 2
            left, complete = zip(*[sok.evicted_keys(table, 1, session) for table in tables])
            assert [one.tolist() for one in left] == [[], []] and not any(complete), (remembered, left, complete)
            session.run(train, {keys: np.arange(30, 32) * ranks + rank})
            for table, remember in zip(tables, remembered):
                left, complete = sok.evicted_keys(table, 3, session)
                assert complete and left.tolist() == [], (remembered, left)
                assert len(sok.evicted_keys(table, 2, session)[0]) == 2 * (remember > 0)
                assert not sok.evicted_keys(table, 1, session)[1]
        yield


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


if __name__ == "__main__":
    main(globals())

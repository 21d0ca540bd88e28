"""How far a rank's data have been read, saved by TensorFlow's means: FOLDER CASES... in a session each."""
import contextlib
import os
import sys

import tensorflow.compat.v1 as tf

import sok1x as sok
from sok1x.checkpoint import CheckpointError


class Model:
    """A table, its step, and this rank's samples: 1000 R, 1000 R + 1, ..., two at a time."""

    def __init__(self, rank):
        dataset = tf.data.Dataset.range(1000 * rank, 1000 * rank + 100).batch(2)
        self.iterator = tf.data.make_initializable_iterator(dataset)
        self.keys = self.iterator.get_next()
        self.saveable = tf.data.experimental.make_saveable_from_iterator(self.iterator)
        table = sok.DynamicVariable(dimension=2, initializer="ones", name="t")
        loss = tf.reduce_sum(sok.all2all_dense_embedding(table, self.keys))
        self.step = sok.DistributedOptimizer(tf.train.GradientDescentOptimizer(0.1)).minimize(
            loss, tf.train.get_or_create_global_step())
        self.start = [tf.global_variables_initializer(), self.iterator.initializer]


def among_all(folder, rank, ranks):
    """An iterator in what rank 0 saves for all is refused, whoever saves or restores; on one rank it is right."""
    model = Model(rank)
    tf.add_to_collection(tf.GraphKeys.SAVEABLE_OBJECTS, model.saveable)

    def loop(saver):
        with tf.Session() as session:
            session.run(model.start)
            session.run(model.step)
            saver.save(session)
            session.run(model.keys)
            saver.restore(session)
            return session.run(model.keys).tolist()

    class Stock:
        def __init__(self):
            self.saver, self.path = tf.train.Saver(), os.path.join(folder, "stock")

        def save(self, session):
            self.saver.save(session, self.path)

        def restore(self, session):
            self.saver.restore(session, self.path)

    class Managed:
        def __init__(self):
            self.manager = sok.CheckpointManager(os.path.join(folder, "managed"))

        def save(self, session):
            self.manager.save(session, 1)

        def restore(self, session):
            self.manager.restore(session)

    for kind in (Stock, Managed):
        if ranks == 1:
            assert loop(kind()) == [2, 3], kind
            continue
        try:
            loop(kind())
        except CheckpointError as error:
            assert "would have a tf.data iterator, '{}'".format(model.saveable.name) in str(error), error
            assert "saved by rank 0 alone, of 2, and all ranks would go on where it was" in str(error), error
        else:
            raise AssertionError(kind)
    assert ranks == 1 or not os.listdir(folder), os.listdir(folder)
    hooks = [sok.InitHook(global_batch_size=4)]
    scaffold = tf.train.Scaffold(local_init_op=tf.group(tf.local_variables_initializer(), model.iterator.initializer))
    with tf.train.MonitoredTrainingSession(scaffold=scaffold, hooks=hooks) as session:  # nothing is saved
        session.run(model.step)


def own(folder, rank, ranks):
    """What the error says: a Saver of the iterator alone, and a path of each rank's own."""
    model = Model(rank)
    saver, tables = tf.train.Saver([model.saveable]), tf.train.Saver()
    path, together = os.path.join(folder, "data-{}".format(rank)), os.path.join(folder, "all")
    with tf.Session() as session:
        session.run(model.start)
        for _ in range(3):
            session.run(model.step)
        tables.save(session, together)
        saver.save(session, path, write_state=False)
    with tf.Session() as session:
        session.run(model.start)
        tables.restore(session, together)
        saver.restore(session, path)
        assert session.run(model.keys).tolist() == [1000 * rank + 6, 1000 * rank + 7]


def hook(folder, rank, ranks):
    """`CheckpointInputPipelineHook`: each rank goes on where it was."""
    seen = train(folder, rank, 2)
    assert seen == [[1000 * rank + 2 * i, 1000 * rank + 2 * i + 1] for i in range(6)], seen


def other_ranks(folder, rank, ranks):
    """In a folder where a job of two ranks has left how far they have read."""
    tf.logging.set_verbosity(tf.logging.WARN)
    seen = train(folder, rank, 1)
    assert seen == [[1000 * rank + 2 * i, 1000 * rank + 2 * i + 1] for i in range(3)], seen


def train(folder, rank, times):
    """Trains by an Estimator, three steps each time; returns the samples seen."""
    seen = []

    def model_fn(features, labels, mode):
        del labels
        table = sok.DynamicVariable(dimension=2, initializer="ones", name="t")
        loss = tf.reduce_sum(sok.all2all_dense_embedding(table, features))
        step = sok.DistributedOptimizer(tf.train.GradientDescentOptimizer(0.1)).minimize(
            loss, tf.train.get_global_step())
        note = tf.py_func(lambda keys: seen.append(keys.tolist()), [features], [])
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=tf.group(step, note),
                                          scaffold=sok.Scaffold(global_batch_size=4))

    for _ in range(times):
        estimator = tf.estimator.Estimator(model_fn, folder, config=tf.estimator.RunConfig(
            save_checkpoints_steps=3, log_step_count_steps=1000))
        estimator.train(lambda: tf.data.Dataset.range(1000 * rank, 1000 * rank + 100).batch(2), steps=3,
                        hooks=[tf.data.experimental.CheckpointInputPipelineHook(estimator)])
    return seen


def eager(folder, rank, ranks):
    """An iterator in `CheckpointManager`'s tf.train.Checkpoint is refused; TensorFlow's own saves each rank's."""
    table = sok.DynamicVariable(dimension=2, initializer="ones", name="t")
    iterator = iter(tf.data.Dataset.range(1000 * rank, 1000 * rank + 100).batch(2))
    for _ in range(3):
        sok.all2all_dense_embedding(table, next(iterator))
    checkpoint = tf.compat.v2.train.Checkpoint(iterator=iterator)
    manager = sok.CheckpointManager(os.path.join(folder, "managed"), checkpoint=checkpoint)
    try:
        manager.save(step=1)
    except CheckpointError as error:
        assert ranks == 2 and "would have a tf.data iterator, 'OwnedIterator'" in str(error), error
    else:
        next(iterator)
        assert ranks == 1 and manager.restore() == 1
    path = tf.compat.v2.train.Checkpoint(iterator=iterator, table=table).save(os.path.join(folder, "own"))
    next(iterator)
    tf.compat.v2.train.Checkpoint(iterator=iterator, table=table).restore(path)
    assert next(iterator).numpy().tolist() == [1000 * rank + 6, 1000 * rank + 7]


def main():
    folder, cases = sys.argv[1], sys.argv[2:]
    (tf.enable_v2_behavior if cases == ["eager"] else tf.disable_v2_behavior)()
    tf.logging.set_verbosity(tf.logging.ERROR)
    sok.init()
    rank, ranks = sok.communication.rank(), sok.communication.num_ranks()
    for case in cases:
        with contextlib.nullcontext() if case == "eager" else tf.Graph().as_default():
            mine = os.path.join(folder, "{}-of-{}".format(case, ranks))
            os.makedirs(mine, exist_ok=True)
            globals()[case](mine, rank, ranks)
        print("rank {} did {}".format(rank, case), flush=True)


if __name__ == "__main__":
    main()

"""Columns that share a table in Keras' layers: checkpoints of when the table had the first column's name are restored.

    [mpiexec -np N] python program_shared_columns.py FOLDER

Each way saves the former model, which takes one more step, with new keys in it; and the model as it is restores what
was saved and takes the same step. What both then look up of the keys that were saved are the same bits; of all others,
those that nobody has asked for too, they are those of the model as it is where nothing is restored. SOK's files have no
slots: from them nothing more is trained.
"""
import contextlib
import os
import sys
from unittest import mock

import numpy as np
import tensorflow.compat.v1 as tf

import sok1x as sok
from sok1x.feature_column import tables

tf.logging.set_verbosity(tf.logging.ERROR)
BATCHES = [np.array(keys) for keys in (
    [[1, 5], [-3, 5], [9, 2]], [[4, 5], [7, 1], [2, 2]], [[1, 60], [-70, 5], [8, 2]])]
KEYS = np.concatenate(BATCHES + [[[100, 101]]])
SAVED = np.repeat(np.isin(KEYS, BATCHES[:2]), 3, axis=1)  # of three columns a key


@contextlib.contextmanager
def as_formerly(layer, shared, name):
    """In place of `tables.shared_scope_of`: the table was made in the scope of the column."""
    yield name


class Model:
    def __init__(self):
        keys = [sok.feature_column.categorical_column_with_embedding(name, tf.int64) for name in ("seen", "bought")]
        columns = sok.feature_column.shared_embedding_columns(keys, 3, shared_embedding_collection_name="goods")
        self.given = tf.placeholder(tf.int64, [None, 2])
        self.out = tf.concat([tf.keras.layers.DenseFeatures([column], name="tower_of_" + key.name)(
            {key.name: self.given[:, place]}) for place, (key, column) in enumerate(zip(keys, columns))], 1)
        self.step = sok.DistributedOptimizer(tf.train.AdamOptimizer(0.1), average=False).minimize(
            tf.reduce_sum(self.out ** 2), tf.train.get_or_create_global_step())
        self.table, = [one for one in tf.trainable_variables() if hasattr(one, "table")]

    def trained(self, session, steps):
        """What is looked up after some steps."""
        for batch in steps:
            session.run(self.step, {self.given: batch})
        return session.run(self.out, {self.given: KEYS})

    def trained_alone(self, steps):
        """The same where nothing is restored."""
        with tf.Session() as session:
            session.run(sok.Init(global_batch_size=6))
            session.run(tf.global_variables_initializer())
            return self.trained(session, steps)


@contextlib.contextmanager
def of_hook(folder):
    with tf.train.MonitoredTrainingSession(checkpoint_dir=folder, save_checkpoint_secs=None, hooks=[
            sok.InitHook(global_batch_size=6), sok.CheckpointSaverHook(folder, save_steps=2)]) as session:
        yield lambda run: session.run_step_fn(lambda step_context: run(step_context.session))


@contextlib.contextmanager
def by_hand(way, folder, saved):
    table, = [one for one in tf.trainable_variables() if hasattr(one, "table")]
    keeper = {"saver": tf.train.Saver, "files": sok.Saver}.get(way, lambda: sok.CheckpointManager(folder))()
    os.makedirs(folder, exist_ok=True)
    save, restore = {
        "saver": (lambda session: keeper.save(session, os.path.join(folder, "model")),
                  lambda session: keeper.restore(session, os.path.join(folder, "model"))),
        "manager": (lambda session: keeper.save(session, 2), lambda session: keeper.restore(session)),
        "files": (lambda session: session.run(keeper.dump_to_file(table, folder)),
                  lambda session: session.run(keeper.restore_from_file(table, folder)))}[way]
    with tf.Session() as session:
        session.run(sok.Init(global_batch_size=6))
        session.run(tf.global_variables_initializer())
        if saved:
            restore(session)
        yield lambda run: run(session)
        if not saved:
            save(session)


def main(folder):
    sok.init()
    for way in ("hook", "manager", "saver", "files"):
        left = BATCHES[2:] if way != "files" else []
        place, expected = os.path.join(folder, way), None
        for former in (True, False):
            with tf.Graph().as_default(), mock.patch.object(
                    tables, "shared_scope_of", as_formerly if former else tables.shared_scope_of):
                model = Model()
                assert model.table.op.name == ("tower_of_seen/seen_shared_embedding/embedding_weights" if former else
                                               "goods"), model.table.op.name
                with of_hook(place) if way == "hook" else by_hand(way, place, not former) as inside:
                    if former:
                        inside(lambda session: [session.run(model.step, {model.given: batch})
                                                for batch in BATCHES[:2]])
                    else:
                        found = inside(lambda session: model.trained(session, left))
                alone = model.trained_alone(BATCHES[:2] + left)
                assert former or (alone != expected)[~SAVED].all(), "rows begin by the former name"
                expected = alone if former else np.where(SAVED, expected, alone)
        np.testing.assert_array_equal(found, expected, err_msg=way)
        assert np.unique(found).size > 30
        sys.stdout.write("{} ok\n".format(way))


if __name__ == "__main__":
    main(sys.argv[1])

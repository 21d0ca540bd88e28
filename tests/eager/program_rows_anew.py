"""Run by test_eager_restored_slots.py: rows that a checkpoint or a dump does not have, of tables that keep those.

    python program_rows_anew.py FOLDER save|restore
"""
import os
import sys
from unittest import mock

import numpy as np
import tensorflow as tf

tf.compat.v1.enable_v2_behavior()
import sok1x as sok  # noqa: E402
from sok1x.core.eagerly import eager_slots  # noqa: E402

KINDS = {"filled": dict(embedding_initializer=tf.keras.initializers.Constant(0.5)), "without_index": dict(
    use_hashtable=False)}


class Model:
    def __init__(self, rows, kind):
        self.layer = sok.All2AllDenseEmbedding(rows, 2, 1, 1, name=kind, **KINDS[kind])
        self.optimizer = tf.keras.optimizers.legacy.Adagrad(0.1)
        self.train(1)
        self.table = self.layer.embedding_variable

    def train(self, *keys):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(self.layer(tf.reshape(tf.constant(keys, tf.int64), [-1, 1, 1]), training=True) ** 2)
        self.optimizer.apply_gradients([(tape.gradient(loss, self.layer.embedding_variable),
                                         self.layer.embedding_variable)])

    def state(self):
        return [one.numpy() for one in (self.table, self.optimizer.get_slot(self.table, "accumulator"),
                                        self.table.stamps)]


def manager(folder, models):
    return sok.CheckpointManager(folder, checkpoint=tf.train.Checkpoint(
        parts=[part for model in models for part in (model.layer, model.optimizer)]))


def save(folder):
    models = [Model(4, kind) for kind in sorted(KINDS)]
    manager(folder, models).save(step=1)
    np.savez(os.path.join(folder, "saved.npz"), **{
        kind: model.state()[0] for kind, model in zip(sorted(KINDS), models)})


def restore(folder):
    saved = np.load(os.path.join(folder, "saved.npz"))
    models = [Model(16, kind) for kind in sorted(KINDS)]
    before = [model.state() for model in models]
    for model in models:
        model.train(*range(12))
    manager(folder, models).restore()
    for kind, model, (rows, slot, _) in zip(sorted(KINDS), models, before):
        count = 1 if model.table.index else 4
        rows[:count] = saved[kind][:count]
        for found, expected in zip(model.state(), (rows, slot)):
            np.testing.assert_array_equal(found, expected, kind)
        assert not model.state()[2][count:].any()
        if model.table.index:
            dump = os.path.join(folder, "dump")
            sok.dump(dump, model.table, model.optimizer)
            model.train(*range(12))
            sok.load(dump, model.table, model.optimizer)
            np.testing.assert_array_equal(model.table.numpy(), rows)
    check_without_slots(folder)


def check_without_slots(folder):
    """Which keys the rows of a table in use had is found out where slots may need it, and there alone."""
    table, path = sok.DynamicVariable(dimension=2), os.path.join(folder, "without_slots")
    checkpoint = tf.train.Checkpoint(table=table)
    sok.assign(table, tf.constant([3, 5]), tf.ones([2, 2]))
    checkpoint.write(path)
    sok.assign(table, tf.constant([5, 7]), tf.zeros([2, 2]))
    with mock.patch.object(eager_slots, "keys_of_rows", side_effect=AssertionError("keys were read")):
        checkpoint.read(path).assert_consumed()
    keys, rows = sok.export(table)
    assert sorted(keys.numpy().tolist()) == [3, 5] and (rows.numpy() == 1).all()


if __name__ == "__main__":
    sok.init()
    {"save": save, "restore": restore}[sys.argv[2]](sys.argv[1])
    print("ok", flush=True)

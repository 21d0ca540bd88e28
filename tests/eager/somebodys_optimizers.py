"""Optimizers of somebody's own that can make no slots before their first step, or not by themselves."""
import os

import numpy as np
import tensorflow as tf

import sok1x as sok
from sok1x import launch


class FromApplied(tf.keras.optimizers.legacy.SGD):
    """Makes its slots of what a step has told it."""

    def apply_gradients(self, grads_and_vars, *args, **kwargs):
        self.told = list(grads_and_vars)
        return super().apply_gradients(self.told, *args, **kwargs)

    def _create_slots(self, var_list):
        for one in var_list:
            self.add_slot(one, "sum", initializer=tf.keras.initializers.Constant(0.5 * len(self.told)))


class FromHypers(tf.keras.optimizers.legacy.SGD):
    """Makes its slots of what it has made before."""

    def _create_hypers(self):
        super()._create_hypers()
        self.begin = 0.5

    def _create_slots(self, var_list):
        for one in var_list:
            self.add_slot(one, "sum", initializer=tf.keras.initializers.Constant(self.begin))


def check(table, random, folder):
    """table: makes one of 32 rows."""
    for make in FromApplied, FromHypers:
        check_one(make, table, random, folder)


def check_one(make, table, random, folder):
    """One that goes on, and a new one into which it has been restored."""
    made, twin = [tf.train.Checkpoint(table=table(), optimizer=make(0.1)) for _ in range(2)]

    def step(one, keys):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.sin(sok.all2all_dense_embedding(one.table, tf.constant(keys, tf.int64))))
        one.optimizer.apply_gradients([(tape.gradient(loss, one.table), one.table)])
        return one.table.numpy(), one.optimizer.get_slot(one.table, "sum").numpy()

    mine = np.arange(launch.current().rank, 12, launch.current().size)
    step(made, mine[:4])
    made.optimizer.get_slot(made.table, "sum").assign(random.rand(*made.table.shape))
    path = made.write(os.path.join(folder, make.__name__, "of"))
    status = twin.read(path)
    for one, other in zip(step(made, mine), step(twin, mine)):
        np.testing.assert_array_equal(one, other)
    status.assert_consumed()

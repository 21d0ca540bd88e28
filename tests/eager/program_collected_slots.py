"""An optimizer is dropped with its slots, in a cycle, and Python collects that while sok1x holds a lock of its plans.

Python collects at any allocation, and some are made with the lock held: here it collects at the next time, at once.
"""
import faulthandler
import gc
import threading

import numpy as np
import tensorflow as tf

import sok1x as sok
from sok1x.graph_ops.bridge import plan
from sok1x.graph_ops.stores import known_slots

tf.compat.v1.enable_v2_behavior()


class Collects:
    """A lock in which garbage is collected, once."""

    def __init__(self):
        self._lock = threading.Lock()
        self.armed = False

    def __enter__(self):
        self._lock.acquire()
        if self.armed:
            self.armed = False
            gc.collect()

    def __exit__(self, *_):
        self._lock.release()


def train(optimizer, table, keys):
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(sok.all2all_dense_embedding(table, keys))
    optimizer.apply_gradients(zip(tape.gradient(loss, [table]), [table]))


def drop(table, keys):
    """An optimizer that has trained a table, and that only Python's collector finds."""
    optimizer = tf.keras.optimizers.Adagrad(0.5, initial_accumulator_value=0.1)
    optimizer.itself = optimizer
    train(optimizer, table, keys)


faulthandler.dump_traceback_later(60, exit=True)
plan._lock = lock = Collects()
sok.init()
table = sok.DynamicVariable(2, "ones", name="collected", init_capacity=4)
keys = tf.constant([1, 2, 3], tf.int64)
gc.collect()
gc.disable()
drop(table, keys)
slots = plan.unordered().slots
assert len(slots["collected"]) == 1, slots
lock.armed = True
looked_up = tf.function(lambda: sok.all2all_dense_embedding(table, keys))
found = looked_up().numpy()
assert not lock.armed and len(known_slots._gone) == 1
step = np.float32(0.5) / np.sqrt(np.float32(1.1))
assert np.allclose(found, 1 - step, atol=1e-6), found

# The table grows, beside slots of another optimizer, and those that are gone are known no more.
more = tf.range(1, 20, dtype=tf.int64)
kept = tf.keras.optimizers.Adagrad(0.5, initial_accumulator_value=0.1)
train(kept, table, more)
expected = np.where(np.arange(1, 20)[:, None] < 4, 1 - 2 * step, 1 - step) * np.ones((1, 2))
found = sok.all2all_dense_embedding(table, more).numpy()
assert np.allclose(found, expected, atol=1e-6), found
assert not known_slots._gone and len(slots["collected"]) == 1, slots
print("ok")

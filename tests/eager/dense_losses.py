"""Losses of lookups whose gradients are dense, in loops and in tf.recompute_grad, and what takes steps by them."""
import tensorflow as tf

import sok1x as sok
from sok1x import launch

DIM, STEP, EACH = 3, 0.25, 2  # EACH: keys of each rank in a batch
KERAS = tf.keras.optimizers


def forgetting(strategy="lru", rows=8):
    return sok.DynamicVariable(DIM, initializer="1", init_capacity=rows, max_capacity=rows, evict_strategy=strategy)


def keys_from(first, batches=1):
    return tf.range(first, first + batches * EACH * launch.current().size, dtype=tf.int64)


def exported(table):
    return dict(zip(*[part.numpy().tolist() for part in sok.export(table)]))


def in_turns(table, keys):
    """The sum of the keys' rows, looked up in a loop."""
    total = 0.0
    for part in tf.reshape(keys, [-1, EACH]):
        total += tf.reduce_sum(sok.all2all_dense_embedding(table, part))
    return total


def repeated(table, keys):
    """Likewise, looked up once more for the gradient."""
    return tf.reduce_sum(tf.recompute_grad(lambda given: 1.0 * sok.all2all_dense_embedding(table, given))(keys))


def gradient_of(table, loss, keys):
    with tf.GradientTape() as tape:
        made = loss(table, keys) / launch.current().size
    found = tape.gradient(made, table)
    assert isinstance(found, tf.Tensor), found
    return found


def moved(table, before):
    return {key for key, row in exported(table).items() if row != before.get(key, [1.0] * DIM)}


def scaled(optimizer):
    return tf.keras.mixed_precision.LossScaleOptimizer(optimizer, dynamic=False, initial_scale=1)


def optimizers():
    return [KERAS.legacy.SGD(STEP), KERAS.SGD(STEP), tf.compat.v1.train.GradientDescentOptimizer(STEP),
            scaled(KERAS.legacy.SGD(STEP)), sok.DistributedOptimizer(KERAS.legacy.SGD(STEP), average=False)]


def apply(optimizer, gradient, table):
    if isinstance(optimizer, tf.keras.mixed_precision.LossScaleOptimizer):
        gradient, = optimizer.get_unscaled_gradients([gradient])
    optimizer.apply_gradients([(gradient, table)])

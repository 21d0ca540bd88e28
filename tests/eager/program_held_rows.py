"""Rows of tables that forget or have a cache stay while a gradient is kept that TensorFlow made of several lookups'.

    [mpiexec -np N] python program_held_rows.py
"""
import numpy as np
import tensorflow as tf

tf.compat.v1.enable_v2_behavior()
import sok1x as sok  # noqa: E402
from sok1x import launch  # noqa: E402

DIM, STEP = 3, 0.25
KINDS = {"forgets": {"init_capacity": 4, "max_capacity": 8}, "cache": {"cache_rows": 8}}


def check(world, in_function, kind):
    """Two micro-batches fill the table; a third must not take their rows."""
    table = sok.DynamicVariable(dimension=DIM, initializer="1", **KINDS[kind])
    each = 2 * world.size  # keys of a lookup, of which every rank has two

    def micro_batch(first):
        with tf.GradientTape() as tape:
            loss = sum(tf.reduce_sum(sok.all2all_dense_embedding(table, first + tf.range(
                number * each, (number + 1) * each, dtype=tf.int64))) for number in range(2)) / world.size
        return tape.gradient(loss, table)

    micro_batch = tf.function(micro_batch) if in_function else micro_batch
    firsts = [100 * number * world.size for number in range(3)]
    kept = [micro_batch(tf.constant(first, tf.int64)) for first in firsts[:2]]
    try:
        kept.append(micro_batch(tf.constant(firsts[2], tf.int64)))
    except tf.errors.ResourceExhaustedError as error:
        assert "in flight" in str(error), error
    else:
        raise AssertionError("{}: rows whose gradient is kept have left their keys".format(kind))
    total = tf.IndexedSlices(tf.concat([one.values for one in kept], 0), tf.concat([one.indices for one in kept], 0),
                             kept[-1].dense_shape)
    tf.keras.optimizers.legacy.SGD(STEP).apply_gradients([(total, table)])
    keys, rows = sok.export(table)
    found = dict(zip(keys.numpy().tolist(), rows.numpy()))
    for key in [first + number for first in firsts[:2] for number in range(2 * each)]:
        if key % world.size == world.rank:
            np.testing.assert_allclose(found[key], np.full(DIM, 1 - STEP), rtol=1e-6, err_msg=str((kind, key)))
    del kept, total
    micro_batch(tf.constant(firsts[2], tf.int64))  # now it may


def check_steps_in_functions(kind, optimizer, unknown):
    """The gradient of two lookups, which TensorFlow puts together, applied in the function: as a variable's.

    unknown: the function makes row numbers of its own of it, in a way that tells nothing of where they come from.
    """
    table, stock = sok.DynamicVariable(dimension=DIM, initializer="1", **KINDS[kind]), tf.Variable(tf.ones([8, DIM]))
    sides = ((table, sok.all2all_dense_embedding), (stock, tf.gather))
    optimizers = [getattr(tf.keras.optimizers, optimizer)(0.1) for _ in sides]

    @tf.function
    def step(keys):
        for (variable, look_up), each in zip(sides, optimizers):
            with tf.GradientTape() as tape:
                loss = sum(tf.reduce_sum((number + 2.0) * look_up(variable, (keys + number) % 8) ** 2)
                           for number in range(2))
            gradient = tape.gradient(loss, variable)
            if unknown:
                gradient = tf.IndexedSlices(gradient.values, tf.math.add(gradient.indices, 0), gradient.dense_shape)
            each.apply_gradients([(gradient, variable)])

    for first in range(4):
        step(tf.constant([first, 2 * first, 7], tf.int64))
    keys, rows = sok.export(table)
    assert len(keys) == 8, keys
    np.testing.assert_allclose(rows, stock.numpy()[keys.numpy()], rtol=1e-5, err_msg=str((kind, optimizer, unknown)))


def main():
    sok.init()
    if launch.current().size == 1:
        for kind, optimizer in (("forgets", "Adagrad"), ("forgets", "RMSprop"), ("forgets", "Adam"),
                                ("cache", "Adagrad")):
            for unknown in (False, True):
                check_steps_in_functions(kind, optimizer, unknown)
    for in_function in (False, True):
        for kind in KINDS:
            check(launch.current(), in_function, kind)
    print("rank", launch.current().rank, "ok")


if __name__ == "__main__":
    main()

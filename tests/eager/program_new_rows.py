"""Keys that get the rows of others that have left begin with new slots: all such rows, not only the first of them.

    [mpiexec -np N] python program_new_rows.py
"""
import numpy as np
import tensorflow as tf

tf.compat.v1.enable_v2_behavior()
import sok1x as sok  # noqa: E402
from sok1x import launch  # noqa: E402

CAPACITY, RATE = 32, 0.1  # two rows at least leave at a time
GRADIENT = 4.0
FIRST = {"adagrad": 1 - RATE * GRADIENT / np.sqrt(0.1 + GRADIENT ** 2), "momentum": 1 - RATE * GRADIENT}
OPTIMIZERS = {
    "new Adagrad": lambda: tf.keras.optimizers.Adagrad(RATE, initial_accumulator_value=0.1),
    "legacy Adagrad": lambda: tf.keras.optimizers.legacy.Adagrad(RATE, initial_accumulator_value=0.1),
    "tf.train's Adagrad": lambda: tf.compat.v1.train.AdagradOptimizer(RATE),
    "wrapped Adagrad": lambda: sok.OptimizerWrapper(tf.keras.optimizers.Adagrad(RATE, initial_accumulator_value=0.1)),
    "momentum": lambda: tf.keras.optimizers.legacy.SGD(RATE, momentum=0.9),
}


def check(world, name, in_function, options):
    """Every key is new, and of each rank one: from its first step on all of them are as the first."""
    table = sok.DynamicVariable(dimension=1, initializer="ones", init_capacity=CAPACITY, max_capacity=CAPACITY,
                                **options)
    optimizer = OPTIMIZERS[name]()

    def step(keys):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(sok.all2all_dense_embedding(table, keys) ** 2) * 2
        optimizer.apply_gradients([(tape.gradient(loss, table), table)])

    step = tf.function(step, reduce_retracing=True) if in_function else step
    expected = FIRST["momentum" if name == "momentum" else "adagrad"]
    for number in range(CAPACITY + 8):
        key = number * world.size + world.rank
        step(tf.constant([key], tf.int64))
        keys, rows = sok.export(table)
        found = dict(zip(keys.numpy().tolist(), rows.numpy().ravel()))
        np.testing.assert_allclose(found[key], expected, rtol=1e-6, err_msg=str((name, in_function, number)))


def main():
    """Runs every optimizer, eagerly and in a function."""
    sok.init()
    world = launch.current()
    for name in OPTIMIZERS:
        check(world, name, name == "legacy Adagrad", {})
    check(world, "new Adagrad", True, {"evict_strategy": "lfu"})
    print("ok", flush=True)


main()

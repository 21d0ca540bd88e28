"""Run by test_eager_optimizers.py: sok1x's own optimizers, ten steps against TensorFlow's, and LazyAdam against NumPy.

As in program_eager.py, every rank has a part of each batch, and TensorFlow's own variable sees all of it.
"""
import itertools
import sys

import numpy as np
import tensorflow as tf

tf.compat.v1.enable_v2_behavior()
import sok1x as sok  # noqa: E402
from sok1x import launch  # noqa: E402

KEYS, DIM, STEPS = 24, 3, 10
MAKES = {
    "static": lambda rows: sok.Variable(rows),
    "hashed": lambda rows: sok.All2AllDenseEmbedding(KEYS, DIM, 1, 1).embedding_variable,
    "growing": lambda rows: sok.All2AllDenseEmbedding(None, DIM, 1, 1, init_capacity=2).embedding_variable,
    "hbm": lambda rows: sok.DynamicVariable(dimension=DIM, var_type="hbm", init_capacity=2),
    "forgetting": lambda rows: sok.DynamicVariable(dimension=DIM, init_capacity=4, max_capacity=KEYS),
    "cache": lambda rows: sok.DynamicVariable(dimension=DIM, cache_rows=KEYS)}
KERAS, TRAIN = tf.keras.optimizers, tf.compat.v1.train
SCHEDULE = KERAS.schedules.ExponentialDecay(0.1, 2, 0.5)
# name: (an optimizer of ours, one of TensorFlow's; None: LazyAdam's arithmetic)
OPTIMIZERS = {
    "Adam": (lambda: sok.optimizers.Adam(0.05), lambda: KERAS.legacy.Adam(0.05)),
    "Adam of a schedule": (lambda: sok.optimizers.Adam(SCHEDULE, beta_1=0.8), lambda: KERAS.legacy.Adam(SCHEDULE, 0.8)),
    "Adam, wrapped": (lambda: sok.OptimizerWrapper(sok.optimizers.Adam(0.05)), lambda: KERAS.legacy.Adam(0.05)),
    "Adam, distributed": (lambda: sok.DistributedOptimizer(sok.optimizers.Adam(0.05), average=False),
                          lambda: KERAS.legacy.Adam(0.05)),
    "Adam, scaled": (lambda: tf.keras.mixed_precision.LossScaleOptimizer(sok.optimizers.Adam(0.05)),
                     lambda: KERAS.legacy.Adam(0.05)),
    "Keras' Adam": (lambda: sok.tf.keras.optimizers.Adam(0.05), lambda: KERAS.legacy.Adam(0.05)),
    "SGD": (lambda: sok.SGD(0.05), lambda: TRAIN.GradientDescentOptimizer(0.05)),
    "LazyAdam": (lambda: sok.tf.keras.optimizers.LazyAdamOptimizer(0.05), None),
    "LazyAdam, wrapped": (lambda: sok.OptimizerWrapper(sok.tf.keras.optimizers.LazyAdamOptimizer(0.05)), None)}


class Lazy:
    """Moves rows of the batch alone."""

    def __init__(self):
        self._m, self._v, self._steps = np.zeros((KEYS, DIM)), np.zeros((KEYS, DIM)), 0

    def apply_gradients(self, pairs):
        (gradient, variable), = pairs
        self._steps += 1
        rows, gradient = np.unique(gradient.indices.numpy()), tf.convert_to_tensor(gradient).numpy()
        self._m[rows] = 0.9 * self._m[rows] + 0.1 * gradient[rows]
        self._v[rows] = 0.999 * self._v[rows] + 0.001 * gradient[rows] ** 2
        rate = 0.05 * np.sqrt(1 - 0.999 ** self._steps) / (1 - 0.9 ** self._steps)
        moved = variable.numpy()
        moved[rows] -= rate * self._m[rows] / (np.sqrt(self._v[rows]) + 1e-8)
        variable.assign(moved)


def check(kind, name, in_function, world, random):
    ours, stocks = OPTIMIZERS[name]
    rows = random.normal(size=(KEYS, DIM)).astype(np.float32)
    table, stock = MAKES[kind](rows), tf.Variable(rows)
    if kind != "static":
        sok.assign(table, tf.range(KEYS, dtype=tf.int64), rows)
    optimizer, other = ours(), Lazy() if stocks is None else stocks()

    def step(keys, factors):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(sok.all2all_dense_embedding(table, keys) ** 2 * factors[:, None])
            loss = optimizer.get_scaled_loss(loss) if "scaled" in name else loss
        gradients = tape.gradient(loss, [table])
        gradients = optimizer.get_unscaled_gradients(gradients) if "scaled" in name else gradients
        optimizer.apply_gradients(zip(gradients, [table]))
    step = tf.function(step) if in_function else step
    for number in range(STEPS):
        keys, factors = random.randint(0, KEYS, 8), random.normal(size=8).astype(np.float32)
        part = slice(world.rank, None, world.size)
        step(tf.constant(keys[part], tf.int64), tf.constant(factors[part]))
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.gather(stock, keys) ** 2 * factors[:, None])
        other.apply_gradients(zip(tape.gradient(loss, [stock]), [stock]))
        if number == STEPS // 2 and name == "Adam":
            optimizer.learning_rate = other.learning_rate = 0.02
    keys, values = sok.export(table)
    for key, row in zip(keys.numpy().tolist(), values.numpy()):
        np.testing.assert_allclose(row, stock.numpy()[key], rtol=2e-3, atol=2e-4, err_msg="{} {}".format(kind, name))
    if name == "Adam":
        assert int(optimizer.iterations) == STEPS
        assert len(optimizer.weights) == 3 and optimizer.initializer is None  # they have their values


def main(seed):
    sok.init()
    world, random = launch.current(), np.random.RandomState(seed)
    assert sok.optimizers.Adam().initializer is None
    for kind, name, in_function in itertools.product(MAKES, OPTIMIZERS, (False, True)):
        if kind in ("static", "cache") or (len(kind) + len(name) + in_function) % 3 == 0:
            check(kind, name, in_function, world, random)
    print("rank", world.rank, "ok")


if __name__ == "__main__":
    main(int(sys.argv[1]))

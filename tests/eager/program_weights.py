"""Run by test_eager_weights.py: lookups with weights under tapes, against `tf.nn.embedding_lookup_sparse`.

As in program_eager.py, every rank has a part of each batch, and TensorFlow's own variable sees all of it.
"""
import itertools
import sys

import numpy as np
import tensorflow as tf

tf.compat.v1.enable_v2_behavior()
import sok1x as sok  # noqa: E402
from sok1x import launch  # noqa: E402

KEYS, DIM, SAMPLES = 12, 3, 6
MAKES = {
    "static": lambda rows: sok.Variable(rows),
    "hbm": lambda rows: sok.DynamicVariable(dimension=DIM, var_type="hbm", init_capacity=2),
    "forgetting": lambda rows: sok.DynamicVariable(dimension=DIM, init_capacity=4, max_capacity=KEYS),
    "cache": lambda rows: sok.DynamicVariable(dimension=DIM, cache_rows=KEYS)}


def sparse(places, values):
    return tf.SparseTensor(tf.convert_to_tensor(places, tf.int64), values, [SAMPLES, 4])


def batch(random, world):
    """Places, keys and weights of all, and which of them are this rank's; some samples have nothing, and of some the
    weights add up to zero."""
    lengths = random.randint(0, 4, SAMPLES)
    places = [[sample, place] for sample, length in enumerate(lengths) for place in range(length)]
    mine = [number for number, (sample, _) in enumerate(places) if sample % world.size == world.rank]
    weights = []
    for length in lengths:
        zero = [[], [0], [1, -1], [-1, 1, 0]][length]
        weights += [random.uniform(0.5, 2, length), random.uniform(0.5, 2) * np.array(zero),
                    np.zeros(length)][random.choice(3, p=[0.6, 0.2, 0.2])].tolist()
    return (np.array(places).reshape(-1, 2), random.randint(0, KEYS, len(places)), np.array(weights, np.float32), mine)


def check_steps(kind, combiner, in_function, world, random):
    """Two steps of SGD: rows, and gradients to weights, a variable or a tensor."""
    rows = random.normal(size=(KEYS, DIM)).astype(np.float32)
    factors = random.normal(size=(SAMPLES, DIM)).astype(np.float32)
    table, stock = MAKES[kind](rows), tf.Variable(rows)
    if kind != "static":
        sok.assign(table, tf.range(KEYS, dtype=tf.int64), rows)
    optimizer = tf.keras.optimizers.legacy.SGD(0.1)

    def step(looked_up, variable, places, keys, weights):
        with tf.GradientTape() as tape:
            tape.watch(weights)
            sums = looked_up(variable, sparse(places, keys), sparse(places, weights))
            loss = tf.reduce_sum(sums ** 2 * factors)
        return tape.gradient(loss, [variable, weights])

    def ours(table, ids, weights):
        return sok.lookup_sparse(table, ids, weights, combiners=combiner)

    def stocks(variable, ids, weights):
        # TensorFlow's has as many rows as the last sample with a key needs.
        found = tf.nn.embedding_lookup_sparse(variable, ids, weights, combiner=combiner)
        return tf.pad(found, [[0, SAMPLES - tf.shape(found)[0]], [0, 0]])

    def ours_step(places, keys, weights):
        of_table, of_weights = step(ours, table, places, keys, weights)
        optimizer.apply_gradients([(of_table, table)])
        return of_weights

    call = tf.function(ours_step, reduce_retracing=True) if in_function else ours_step
    for number in range(2):
        places, keys, weights, mine = batch(random, world)
        variable = tf.Variable(weights[mine]) if number and not in_function else tf.constant(weights[mine])
        found = call(tf.constant(places[mine], tf.int64), tf.constant(keys[mine], tf.int64),
                     variable if in_function else tf.convert_to_tensor(variable))
        of_stock, of_weights = step(stocks, stock, places, tf.constant(keys, tf.int64), tf.constant(weights))
        optimizer.apply_gradients([(of_stock, stock)])
        np.testing.assert_allclose(found.numpy(), of_weights.numpy()[mine], rtol=2e-4, atol=2e-5)
    keys, values = sok.export(table)
    assert keys.shape[0] or world.size > 1
    for key, row in zip(keys.numpy().tolist(), values.numpy()):
        np.testing.assert_allclose(row, stock.numpy()[key], rtol=2e-4, atol=2e-5, err_msg=kind)


def check_second_order(combiner, in_function, world, random):
    """A loss with a first gradient in it, of rows, weights and both; the ranks look up different keys."""
    rows = random.normal(size=(KEYS, DIM)).astype(np.float32)
    table, stock = sok.Variable(rows), tf.Variable(rows)
    places, keys, weights, mine = batch(random, world)
    mine = [number for number in mine if keys[number] % world.size == world.rank]
    places, keys = tf.constant(places[mine], tf.int64), tf.constant(keys[mine], tf.int64)
    weights = tf.constant(weights[mine])

    def second(looked_up, variable, weights):
        with tf.GradientTape() as outer:
            outer.watch(weights)
            with tf.GradientTape() as inner:
                inner.watch(weights)
                loss = tf.reduce_sum(tf.sin(looked_up(variable)))
            of_rows, of_weights = inner.gradient(loss, [variable, weights])
            again = tf.reduce_sum(of_weights ** 2) + tf.reduce_sum(of_rows.values ** 3)
        return outer.gradient(again, [variable, weights])

    def ours(variable):
        return sok.lookup_sparse(variable, sparse(places, keys), sparse(places, weights), combiners=combiner)

    def stocks(variable):
        return tf.nn.embedding_lookup_sparse(variable, sparse(places, keys), sparse(places, weights), combiner=combiner)

    def run(looked_up, variable):
        of_rows, of_weights = second(looked_up, variable, weights)
        return tf.convert_to_tensor(of_rows), of_weights
    run = tf.function(run, reduce_retracing=True) if in_function else run
    of_rows, of_weights = run(ours, table)
    stocks_rows, stocks_weights = run(stocks, stock)
    # TensorFlow divides zero by the root of a sum of squares that is zero.
    there = np.isfinite(stocks_weights)
    assert np.isfinite(of_weights).all() and (there.all() or combiner == "sqrtn")
    np.testing.assert_allclose(of_weights.numpy()[there], stocks_weights.numpy()[there], rtol=2e-4, atol=2e-5)
    np.testing.assert_allclose(of_rows, stocks_rows.numpy()[world.rank::world.size], rtol=2e-4, atol=2e-5)


def main(seed):
    sok.init()
    world, random = launch.current(), np.random.RandomState(seed)
    for kind, combiner, in_function in itertools.product(MAKES, ("sum", "mean", "sqrtn"), (False, True)):
        check_steps(kind, combiner, in_function, world, random)
    for combiner, in_function in itertools.product(("sum", "mean", "sqrtn"), (False, True)):
        check_second_order(combiner, in_function, world, random)
    print("rank", world.rank, "ok")


if __name__ == "__main__":
    main(int(sys.argv[1]))

"""Means of bags whose weights add up to zero, on any number of ranks, against tf.nn.embedding_lookup_sparse of this
TensorFlow on the whole tables in float64: values, gradients to rows and weights, and, of TensorFlow 2, gradients of
gradients. There all of these are finite; of TensorFlow 1.15 the same are not finite as of its own.

    mpiexec -np N python program_zero_weights.py SEED
"""
import sys

import numpy as np
import static_model as model
import tensorflow.compat.v1 as tf
from static_model import RANK, world

import sok1x as sok
from sok1x.graph_ops.bridge.tensorflow_versions import V2

v1 = tf
ROWS, GIVEN = 11, 0.75
# (D, mode, combiner, ids' dtype, ragged or sparse, weighted); mode "grows": a table with an index, whose rows are alike
TABLES = [
    (1, None, "mean", np.int64, "ragged", True),
    (3, None, "sqrtn", np.int32, "unsorted", True),
    (16, "localized:0", "mean", np.int64, "sparse", True),
    (33, "distributed", "sqrtn", np.int64, "ragged", True),
    (4, "grows", "mean", np.int64, "unsorted", True),
    (5, "grows", "sqrtn", np.int64, "ragged", True),
    (8, None, "mean", np.int64, "sparse", False),  # without weights empty bags are zeros on any TensorFlow
]


class Batch(model.Batch):
    """Of one rank and table; bags of all kinds, in any order."""

    def __init__(self, random, samples):
        weight = random.choice([0.25, 1.0, 3.5])
        bags = [[0, 0], [weight, -weight], [-weight, weight, 0], [0], [], random.uniform(0.5, 2, 3), [weight]]
        bags = [bags[one] for one in random.permutation(np.arange(samples) % len(bags))]
        self.weights = [np.array(bag, np.float32).tolist() for bag in bags]
        self.ids = [random.randint(0, ROWS, len(bag)).tolist() for bag in bags]


def loss_of(outs, factors):
    """Not linear, so that gradients of gradients count."""
    return tf.add_n([tf.reduce_sum(tf.cast(out, tf.float64) ** 2 * factor + tf.cast(out, tf.float64))
                     for out, factor in zip(outs, factors)])


def dense(gradient, like):
    return tf.zeros_like(like) if gradient is None else tf.convert_to_tensor(gradient)


def of_squares(gradients, inputs):
    return [dense(one, like) for one, like in zip(
        tf.gradients(tf.add_n([tf.reduce_sum(tf.cast(one, tf.float64) ** 2) for one in gradients]), inputs), inputs)]


def near(got, expected, what, half=False):
    what = "rank {}: {}".format(RANK, what)
    there = np.isfinite(expected)
    if V2:
        assert np.isfinite(got).all(), what
    else:
        np.testing.assert_array_equal(np.isfinite(got), there, what)
    scale = max([1.0, *np.abs(expected[there])])
    np.testing.assert_allclose(got[there], expected[there], 1e-2 if half else 2e-4, (1e-2 if half else 2e-5) * scale,
                               err_msg=what)


def check(seed, together, dtype):
    """together: whether one call makes all lookups, or a session runs each alone."""
    same, own = np.random.RandomState(seed), np.random.RandomState(seed + 1 + RANK)
    wholes = [np.full((ROWS, one[0]), GIVEN, np.float32) if one[1] == "grows" else
              same.uniform(-1, 1, (ROWS, one[0])).astype(np.float32) for one in TABLES]
    batches = [Batch(own, own.randint(0, 15)) for _ in TABLES]
    factors = [same.uniform(0.5, 1.5, one[0]) for one in TABLES]
    every = [world.allgather(batch) for batch in batches]
    with tf.Graph().as_default(), v1.Session() as session:
        tables = [sok.DynamicVariable(one[0], initializer=[GIVEN] * one[0]) if one[1] == "grows" else
                  sok.Variable(whole, mode=one[1]) for one, whole in zip(TABLES, wholes)]
        session.run(v1.global_variables_initializer())
        feds = [model.Fed(*one[3:]) for one in TABLES]
        plain = [tf.constant(whole, tf.float64) for whole in wholes]
        stocks = [model.Reference(one, table[2], table[5]) for one, table in zip(plain, TABLES)]
        for places in [range(len(TABLES))] if together else [[place] for place in range(len(TABLES))]:
            outs = sok.lookup_sparse([tables[i] for i in places], [feds[i].ids for i in places],
                                     [feds[i].weights for i in places], [TABLES[i][2] for i in places], dtype=dtype)
            weighted = [i for i in places if TABLES[i][5]]
            still = [i for i in places if TABLES[i][1] != "grows"]  # whose rows have places that are known
            of = [tables[i] for i in still] + [feds[i].weight_values for i in weighted]
            of_stock = [plain[i] for i in still] + [stocks[i].weights for i in weighted]
            first = [dense(*each) for each in zip(tf.gradients(loss_of(outs, [factors[i] for i in places]), of), of)]
            expected_outs = [stocks[i].out for i in places]
            expected_first = [dense(*each) for each in zip(
                tf.gradients(loss_of(expected_outs, [factors[i] for i in places]), of_stock), of_stock)]
            second = V2 and of_squares(first, of)
            feed, stock_feed = {}, {}
            for i in places:
                feed.update(feds[i].feeds(batches[i]))
                stock_feed.update(stocks[i].feeds(model.joined(every[i])))
            got = session.run([outs, first, second or []], feed)
            wanted = session.run([expected_outs, expected_first, of_squares(expected_first, of_stock) if V2 else []],
                                 stock_feed)
            for number, i in enumerate(places):
                begin = sum(len(one.ids) for one in every[i][:RANK])
                near(got[0][number], wanted[0][number][begin:begin + len(batches[i].ids)], TABLES[i], dtype)
            for order in (1, 2) if V2 else (1,):
                for number, i in enumerate(still):
                    near(got[order][number], model.rows_of(TABLES[i][1], wanted[order][number]),
                         "rows, order {}, {}".format(order, TABLES[i]), dtype)
                for number, i in enumerate(weighted, len(still)):
                    begin = sum(len(one.flat("ids")) for one in every[i][:RANK])
                    mine = np.arange(len(batches[i].flat("ids")))
                    if TABLES[i][4] == "unsorted":
                        mine = np.random.RandomState(len(mine)).permutation(len(mine))
                    near(got[order][number], wanted[order][number][begin + mine],
                         "weights, order {}, {}".format(order, TABLES[i]), dtype)


if __name__ == "__main__":
    sok.init()
    seed = int(sys.argv[1]) % 2 ** 30
    for number, (together, dtype) in enumerate([(True, None), (False, None), (True, "float16"), (True, None)]):
        check(seed + 100 * number, together, dtype)
    sys.stdout.write("ok\n")

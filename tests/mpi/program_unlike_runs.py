"""Ranks whose session.runs differ: cut otherwise, or one evaluates, or looks at gradients, where another trains.

    mpiexec -np 2 python program_unlike_runs.py CASE EXCHANGE [OPTIMIZER]
"""
import sys

import numpy as np
import tensorflow.compat.v1 as tf

import sok1x as sok
from sok1x import launch

tf.disable_v2_behavior()
tf.logging.set_verbosity(tf.logging.ERROR)
D, LONG = 4, 100
sok.init()
RANK = launch.current().rank


def bags(name, exchange):
    """A table of ones, and what two bags of `LONG` different keys add up to: by reduce_scatter fewer bytes move."""
    layer = sok.DistributedEmbedding("sum", 4096, D, 1, LONG, exchange=exchange, embedding_initializer="ones",
                                     name=name)
    keys = np.arange(2 * LONG) + 1000 * RANK
    where = np.stack([keys % 1000 // LONG, keys % LONG], axis=1)
    rows = layer(tf.SparseTensor(where, tf.constant(keys, tf.int64), [2, LONG]), training=True)
    return layer, rows


def cut_otherwise(session, exchange, _):
    """All ranks run the same ops, one in two runs and the other in one."""
    _, evaluated = bags("evaluated", exchange)
    trained, rows = bags("trained", "all2all")
    step = tf.train.GradientDescentOptimizer(0.5).minimize(tf.reduce_sum(rows), var_list=trained.trainable_variables)
    session.run(tf.global_variables_initializer())
    for turn in range(3):
        if RANK == 0:
            found = session.run(evaluated)
            session.run(step)
        else:
            found, _ = session.run([evaluated, step])
        np.testing.assert_array_equal(found, np.full([2, 1, D], LONG))
    np.testing.assert_array_equal(session.run(rows), np.full([2, 1, D], LONG * (1 - 3 * 0.5)))


def evaluates(session, exchange, _):
    """Rank 0 runs a lookup alone, the other a whole step."""
    layer, rows = bags("table", exchange)
    step = tf.train.GradientDescentOptimizer(0.5).minimize(tf.reduce_sum(rows), var_list=layer.trainable_variables)
    session.run(tf.global_variables_initializer())
    for _ in range(3):
        session.run(step)
    session.run(step if RANK else rows)
    session.run(rows)


def optimizers():
    """Each: how a step is made of gradients and variables."""
    def dense(optimizer, given):
        return optimizer.apply_gradients([(tf.convert_to_tensor(gradient), table) for gradient, table in given])

    def chosen(optimizer, given):
        return tf.cond(tf.less(tf.random.uniform([]), 2.0), lambda: tf.group(dense(optimizer, given)), tf.no_op)

    return {"sgd": lambda given: tf.train.GradientDescentOptimizer(1.0).apply_gradients(given),
            "adam": lambda given: tf.train.AdamOptimizer(1.0).apply_gradients(given),
            "momentum": lambda given: tf.train.MomentumOptimizer(1.0, 0.5).apply_gradients(given),
            "dense": lambda given: dense(tf.train.GradientDescentOptimizer(1.0), given),
            "dense_adagrad": lambda given: dense(tf.train.AdagradOptimizer(1.0), given),
            "in_a_cond": lambda given: chosen(tf.train.GradientDescentOptimizer(1.0), given)}


def looks(session, exchange, optimizer):
    """Rank 0 looks at gradients by which the other steps."""
    layer, rows = bags("table", exchange)
    gradient, = tf.gradients(tf.reduce_sum(rows), layer.trainable_variables)
    step = optimizers()[optimizer]([(gradient, layer.trainable_variables[0])])
    session.run(tf.global_variables_initializer())
    session.run(step)
    session.run(step if RANK else gradient.values)


def looks_beside(session, exchange, optimizer):
    """Likewise, while rank 0 steps another table."""
    layers, rows = zip(*[bags(name, exchange) for name in ("looked_at", "stepped")])
    loss = tf.reduce_sum(rows[0] * rows[1])  # the one's gradient is the other's rows
    variables = [layer.trainable_variables[0] for layer in layers]
    gradients = tf.gradients(loss, variables)
    steps = [optimizers()[optimizer]([pair]) for pair in zip(gradients, variables)]
    session.run(tf.global_variables_initializer())
    session.run(steps)
    session.run(steps if RANK else [gradients[0].values, steps[1]])


with tf.Session() as sess:
    globals()[sys.argv[1]](sess, sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else None)
print("rank {}: ok".format(RANK), flush=True)

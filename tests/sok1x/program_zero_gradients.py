"""Run on two ranks: tf.contrib.opt.MultitaskOptimizerWrapper on tables steps as it does in one process.

    mpiexec -np 2 python program_zero_gradients.py SEED

In some steps all keys are one rank's, in some gradients are zeros on one rank, or on all: then nobody steps.
"""
import sys

import numpy as np
import tensorflow.compat.v1 as tf

import sok1x as sok

tf.logging.set_verbosity(tf.logging.ERROR)
ROWS, DIM, BATCH, STEPS = 10, 2, 4, 10
OPTIMIZERS = {"Adam": tf.train.AdamOptimizer, "Momentum": lambda rate: tf.train.MomentumOptimizer(rate, 0.9),
              "Adagrad": tf.train.AdagradOptimizer}


def batch(random, number):
    """Keys and factors of all ranks; in every third step even keys alone, and some steps are without gradients."""
    keys = random.randint(0, ROWS // 2, BATCH) * 2 if number % 3 == 1 else random.randint(0, ROWS, BATCH)
    factors = random.randn(BATCH, DIM).astype(np.float32)
    if number == 4:
        factors[keys % 2 == 0] = 0
    return keys.astype(np.int64), factors if number % 4 != 3 else np.zeros_like(factors)


def train(seed, optimizer, first, rank, ranks, averages):
    """Rows of both tables, and the dense variable, after all steps. averages: whether that one is trained, too.

    One rank trains variables of stock TensorFlow.
    """
    from tensorflow.contrib.opt import MultitaskOptimizerWrapper
    with tf.Graph().as_default(), tf.Session() as session:
        keys, factors = tf.placeholder(tf.int64, [None]), tf.placeholder(tf.float32, [None, DIM])
        dense = tf.get_variable("dense", initializer=first[0], use_resource=True)
        every = tf.range(ROWS, dtype=tf.int64)
        if ranks > 1:
            tables = [sok.Variable(first), sok.Variable(first, mode="localized:1")]
            rows = [sok.all2all_dense_embedding(table, keys) for table in tables]
            found = [sok.all2all_dense_embedding(table, every, training=False) for table in tables]
        else:
            found = tables = [tf.get_variable(name, initializer=first, use_resource=True) for name in ("a", "b")]
            rows = [tf.gather(table, keys) for table in tables]
        loss = tf.reduce_sum(tf.add_n([each * each for each in rows]) * factors) + tf.reduce_sum(dense * factors)
        if ranks > 1 and averages:
            optimizer = sok.DistributedOptimizer(optimizer, average=False)
        step = MultitaskOptimizerWrapper(optimizer).minimize(loss, var_list=None if averages else tables)
        session.run(tf.global_variables_initializer())
        random = np.random.RandomState(seed)
        for number in range(STEPS):
            given = batch(random, number)
            session.run(step, {keys: given[0][rank::ranks], factors: given[1][rank::ranks]})
        return session.run(found + [dense])


def main(seed):
    sok.init()
    rank, ranks = sok.communication.rank(), sok.communication.num_ranks()
    first = np.random.RandomState(seed).randn(ROWS, DIM).astype(np.float32)
    for name, make in sorted(OPTIMIZERS.items()):
        for averages in (True, False):
            expected = train(seed, make(0.1), first, 0, 1, averages)
            got = train(seed, make(0.1), first, rank, ranks, averages)
            assert min(np.abs(values - first).max() for values in expected[:2]) > 0.1, name
            for mine, right in zip(got, expected):
                np.testing.assert_allclose(mine, right, rtol=1e-4, atol=1e-4, err_msg=name)
    print("rank", rank, "ok")


if __name__ == "__main__":
    tf.disable_v2_behavior()
    main(int(sys.argv[1]))

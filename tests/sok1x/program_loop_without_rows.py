"""Run on two ranks: lookups in a loop, of tables that have no rows on rank 1, train as without a loop.

    mpiexec -np 2 python program_loop_without_rows.py
"""
import numpy as np
import tensorflow.compat.v1 as tf

import sok1x as sok

v1 = tf
v1.logging.set_verbosity(v1.logging.ERROR)
sok.init()
RANK = sok.communication.rank()
VALUES = np.arange(6.0, dtype=np.float32).reshape(3, 2)

with tf.Graph().as_default(), v1.Session() as session:
    tables = [sok.Variable(VALUES, mode="localized:0"), sok.Variable(VALUES[:1])]
    ids = [tf.constant([2, 0], tf.int64), tf.constant([0], tf.int64)]
    total = v1.while_loop(lambda i, _: i < 3, lambda i, total: (i + 1, total + tf.add_n([
        tf.reduce_sum(sok.all2all_dense_embedding(*pair)) for pair in zip(tables, ids)])), [0, 0.0])[1]
    step = v1.train.MomentumOptimizer(0.5, 0.9).minimize(total, var_list=tables)
    session.run(v1.global_variables_initializer())
    session.run(step)
    for table, asked in zip(tables, ids):
        found = session.run(sok.all2all_dense_embedding(table, asked))
        np.testing.assert_allclose(found, VALUES[session.run(asked)] - 0.5 * 2 * 3, rtol=1e-6)
print("done-{}".format(RANK))

"""Gradients that one thread looks at while another trains: no rank's may be taken for those that another steps by.

    mpiexec -np 2 python program_looked_at.py

One rank looks before it trains, the other trains before it looks: so what each begins first is not what the other does.
"""
import threading
import time

import numpy as np
import tensorflow.compat.v1 as tf

import sok1x as sok
from sok1x import launch

tf.logging.set_verbosity(tf.logging.ERROR)
DIM = 2
TRAINED, LOOKED_AT = np.arange(6), np.arange(6, 10)  # keys of both ranks each

sok.init()
RANK = launch.current().rank


def check(name, make_step):
    """Only what a step follows changes rows, by the gradients of both ranks."""
    table = sok.Variable(np.zeros([10, DIM], np.float32), name=name)
    keys = tf.placeholder(tf.int64, [None])
    rows = sok.lookup_sparse(table, tf.RaggedTensor.from_row_lengths(keys, tf.ones_like(keys)), combiners="sum")
    grad, = tf.gradients(tf.reduce_sum(rows), table)
    fetches = {"train": make_step(grad, table), "look": grad.values}
    feeds = {"train": {keys: TRAINED}, "look": {keys: LOOKED_AT}}
    exported = sok.export(table)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for fetch in fetches.values():  # all that is made at the first time
            session.run(fetch, {keys: []})
        threads = [threading.Thread(target=session.run, args=(fetches[what], feeds[what]))
                   for what in (("train", "look") if RANK else ("look", "train"))]
        for thread in threads:
            thread.start()
            time.sleep(1.5)  # so long that ranks' session.runs that differ meet in their order (launch/pairing.py)
        for thread in threads:
            thread.join()
        for key, row in zip(*session.run(exported)):
            assert (row == (-2 if key in TRAINED else 0)).all(), (name, key, row)


check("ours", lambda grad, table: sok.OptimizerWrapper(tf.train.GradientDescentOptimizer(1.0)).apply_gradients(
    [(grad, table)]))
check("tensorflows", lambda grad, table: tf.train.GradientDescentOptimizer(1.0).apply_gradients([(grad, table)]))
print("rank {}: ok".format(RANK), flush=True)

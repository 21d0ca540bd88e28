"""Tables in host memory with a cache: the bits of tables on the device, and nothing lost where memory ends."""
import os

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from ranks import run_ranks
from stock_lazy_adam import LazyAdamOptimizer

import sok1x as sok

HERE = os.path.dirname(os.path.abspath(__file__))


@pytest.mark.parametrize("ranks", [pytest.param(0, marks=pytest.mark.slow), 2])
def test_a_cache_that_is_too_small(ranks, seed, tmp_path):
    finished = run_ranks(ranks, os.path.join(HERE, "program_hybrid.py"), seed, str(tmp_path), timeout=300)
    assert finished.out.count(" ok") == max(1, ranks), str(finished)
    if ranks:
        on_one_rank(str(tmp_path / "saved"), ranks)


def on_one_rank(folder, ranks):
    """What all ranks have saved last, restored on one."""
    saved = np.concatenate([np.load("{}_{}.npy".format(folder, rank)) for rank in range(ranks)])
    with tf.Graph().as_default(), tf.Session() as session:
        sok.init()
        table = sok.DynamicVariable(4, "uniform", name="t", cache_rows=11)
        keys = tf.placeholder(tf.int64, [None])
        rows = sok.all2all_dense_embedding(table, keys)
        gradient, = tf.gradients(tf.reduce_sum(rows * rows), table)
        LazyAdamOptimizer(0.1).apply_gradients([(gradient, table)])
        manager, exported = sok.CheckpointManager(folder), sok.export(table)
        session.run(tf.global_variables_initializer())
        manager.restore(session)
        got = np.column_stack(session.run(exported))
    np.testing.assert_array_equal(got[got[:, 0].argsort()], saved[saved[:, 0].argsort()])

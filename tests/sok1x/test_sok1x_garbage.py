"""Steps leave nothing behind that only Python's collector of garbage would find: what they need goes with them."""
import gc

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import sok1x as sok


@pytest.fixture
def without_collector():
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("options", [
    {}, dict(cache_rows=64), dict(cache_rows=64, max_capacity=160, evict_strategy="lru"),
    dict(max_capacity=64, evict_strategy="lfu", remember_evicted=9)], ids=["grows", "cached", "cached lru", "lfu"])
def test_a_step_is_gone_when_it_is_over(without_collector, seed, options):
    sok.init()
    random = np.random.RandomState(seed)
    with tf.Graph().as_default(), tf.Session() as session:
        table = sok.DynamicVariable(4, "ones", name="t", init_capacity=64, **options)
        ids = tf.placeholder(tf.int64, [8])
        loss = tf.reduce_sum(sok.all2all_dense_embedding(table, ids) ** 2)
        step = sok.OptimizerWrapper(tf.train.AdagradOptimizer(0.1)).apply_gradients(
            [(tf.gradients(loss, table)[0], table)])
        value = sok.all2all_dense_embedding(table, ids, training=False)
        session.run(tf.global_variables_initializer())
        left = []
        for steps in (30, 10, 60):
            gc.collect()
            for _ in range(steps):
                for op in (step, value):
                    session.run(op, {ids: random.randint(0, 300, 8)})
            left.append(gc.collect())
        assert left[2] - left[1] < 50, left

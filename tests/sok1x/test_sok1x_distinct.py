"""DistributedOptimizer applies a lookup's gradient without making its indices distinct once more."""
import numpy as np
import pytest
import stock_lazy_adam
import tensorflow.compat.v1 as tf

import sok1x as sok
from sok1x.graph_ops.bridge import op_types
from sok1x.graph_ops.operations import embedding

OPTIMIZERS = {
    "LazyAdam": lambda: stock_lazy_adam.LazyAdamOptimizer(0.1), "Adam": lambda: tf.train.AdamOptimizer(0.1),
    "Momentum": lambda: tf.train.MomentumOptimizer(0.1, 0.9), "SGD": lambda: tf.train.GradientDescentOptimizer(0.1),
    "KerasAdagrad": lambda: tf.keras.optimizers.Adagrad(0.1),
    "KerasMomentum": lambda: tf.keras.optimizers.SGD(0.1, momentum=0.9)}


def train(make, distributed, lookups, seed, steps=5):
    """The table after some steps on keys that repeat, and the types of the ops that the optimizer made."""
    random = np.random.RandomState(seed)
    with tf.Graph().as_default() as graph, tf.Session() as sess:
        layer = sok.All2AllDenseEmbedding(30, 4, 2, 3)
        keys = tf.placeholder(tf.int64, [None, 2, 3])
        loss = tf.add_n([tf.reduce_sum(layer(keys + i) ** 2) for i in range(lookups)])
        gradient = tf.gradients(loss, layer.embedding_variable)[0]
        before = set(op.name for op in graph.get_operations())
        optimizer = sok.DistributedOptimizer(make()) if distributed else make()
        step = optimizer.apply_gradients([(gradient, layer.embedding_variable)])
        made = [op.type for op in graph.get_operations() if op.name not in before]
        sess.run(sok.Init(global_batch_size=4))
        sess.run(tf.global_variables_initializer())
        for _ in range(steps):
            sess.run(step, {keys: random.randint(0, 12, [4, 2, 3])})
        # By key: two lookups in one step may meet new keys in either order.
        every = np.arange(18).reshape(-1, 2, 3)
        return sess.run(layer(tf.constant(every, tf.int64), training=False)), made


@pytest.mark.parametrize("name", sorted(OPTIMIZERS))
@pytest.mark.parametrize("lookups", [1, 2])
def test_same_result_without_the_second_pass(name, lookups, seed):
    plain, _ = train(OPTIMIZERS[name], False, lookups, seed)
    mine, made = train(OPTIMIZERS[name], True, lookups, seed)
    np.testing.assert_allclose(mine, plain, rtol=1e-6, atol=1e-7)
    assert "ResourceScatterAdd" not in made or name != "SGD"
    # Two lookups' gradients are joined, and then rows may come twice. Keras' SGD has a way of its own.
    assert ("Unique" in made) == ((lookups == 2 and name != "SGD") or name == "KerasMomentum")


def test_gradient_descent_is_tensorflows_to_the_bit(seed):
    tables = [train(OPTIMIZERS["SGD"], distributed, 1, seed)[0] for distributed in (False, True)]
    np.testing.assert_array_equal(*tables)


def test_learning_rates_may_be_tensors_and_change():
    with tf.Graph().as_default(), tf.Session() as sess:
        layer = sok.All2AllDenseEmbedding(8, 2, 1, 1)
        rate = tf.placeholder(tf.float64, [])
        out = layer(tf.constant([[[5]]], tf.int64))
        step = sok.DistributedOptimizer(tf.train.GradientDescentOptimizer(rate)).minimize(
            tf.reduce_sum(out), var_list=[layer.embedding_variable])
        sess.run(sok.Init(global_batch_size=1))
        sess.run(tf.global_variables_initializer())
        start = sess.run(out)
        for value in (0.5, 0.25):
            sess.run(step, {rate: value})
        np.testing.assert_allclose(sess.run(out), start - 0.75, rtol=1e-6)


def test_what_counts_as_distinct():
    with tf.Graph().as_default():
        layer = sok.DistributedEmbedding("sum", 30, 4, 2, 3)
        keys = tf.sparse_placeholder(tf.int64)
        trained = tf.gradients(layer(keys), layer.embedding_variable)[0]
        evaluated = tf.gradients(layer(keys, training=False), layer.embedding_variable)[0]
        own, other = layer.embedding_variable, sok.EmbeddingVariable(30, 4)
        for indices in trained.indices, evaluated.indices:
            assert indices.graph.is_feedable(indices)
            assert embedding.are_distinct(indices, own) and embedding.are_distinct(tf.identity(indices), own)
            assert not indices.graph.is_feedable(indices)  # or this might be another tensor after all
            assert not embedding.are_distinct(indices, other)
        assert not embedding.are_distinct(tf.concat([trained.indices, evaluated.indices], 0), own)
        for saved in trained.values.op.inputs[1:3]:  # which row each key has: some come twice
            assert not embedding.are_distinct(saved, own)
        found = next(op for op in own.graph.get_operations() if op_types.is_ours(op)
                     and op.get_attr("function")
                     == b"operations.distinct_rows.find" and evaluated.values.op.inputs[3].op is op)
        assert not embedding.are_distinct(found.outputs[1], own)  # there may be keys without rows, a -1 each

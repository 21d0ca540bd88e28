"""Gradients of another run than the one that applies them: refused where rows do not stay where they are."""
import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from sok1x_cases import graph

import sok1x as sok


def _of_another_run(table, gradient):
    """What accumulates a gradient, or has it come back, and how an optimizer gets it then."""
    kept = tf.get_variable("kept", initializer=np.zeros(3, np.int32))
    accumulator = tf.SparseConditionalAccumulator(tf.float32, shape=[None, 2])
    accumulator.apply_indexed_slices_grad(gradient)
    fed = tf.placeholder(tf.int64, [None])
    for rows in tf.reshape(kept, [-1]), tf.unique(fed)[0], tf.concat([gradient.indices, tf.cast(fed, tf.int32)], 0):
        yield "row numbers", tf.IndexedSlices(tf.zeros([3, 2]), rows, tf.shape(table))
    yield "row numbers", accumulator.take_indexed_slices_grad(1)
    yield "values", tf.get_variable("whole", initializer=np.zeros([5, 2], np.float32)) / 2.0


@pytest.mark.parametrize("options", [dict(max_capacity=9), dict(cache_rows=5)])
@pytest.mark.parametrize("make", [
    lambda: tf.train.GradientDescentOptimizer(0.5), lambda: tf.keras.optimizers.SGD(0.5), lambda: sok.SGD(0.5),
    lambda: sok.tf.keras.optimizers.LazyAdamOptimizer(0.5), lambda: sok.DistributedOptimizer(
        tf.train.AdagradOptimizer(0.5))])
def test_gradients_of_another_run_are_refused_where_rows_move(options, make):
    with graph():
        table = sok.DynamicVariable(2, name="moving", **options)
        stays = sok.DynamicVariable(2, name="stays")
        condition, loss = tf.placeholder(tf.bool, []), 0.0
        for one in table, stays:
            rows = sok.all2all_dense_embedding(one, tf.constant([1, 2], tf.int64))
            loss += tf.reduce_sum(tf.cond(condition, lambda rows=rows: rows, lambda rows=rows: 2 * rows))
        gradients = tf.gradients(loss, [table, stays])
        for what, gradient in _of_another_run(table, gradients[0]):
            words = "whole variable" if what == "values" and table.table.cache else "whose {} come from".format(what)
            with pytest.raises(ValueError, match="embedding table 'moving', .*" + words):
                make().apply_gradients([(gradient, table)])
            make().apply_gradients([(gradient, stays)])
        make().apply_gradients(zip(gradients, [table, stays]))
        if table.table.cache:
            with pytest.raises(ValueError, match="whole variable"):
                make().apply_gradients([(tf.gradients(tf.nn.l2_loss(table), table)[0], table)])

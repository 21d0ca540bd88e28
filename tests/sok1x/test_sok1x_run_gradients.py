"""Gradients of another run than the one that applies them: refused where rows do not stay where they are."""
import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from sok1x_cases import graph, session
from tensorflow.python.ops import data_flow_ops

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
            repeated = _recompute()(lambda keys: 1.0 * sok.all2all_dense_embedding(table, keys))
            for loss in tf.nn.l2_loss(table), tf.reduce_sum(repeated(tf.constant([1, 2], tf.int64))):
                with pytest.raises(ValueError, match="whole variable .*look up outside of tf.recompute_grad"):
                    make().apply_gradients([(tf.gradients(loss, table)[0], table)])


def _trained(options, make, through=lambda indices: indices):
    """(placeholder of keys, the loss, a lookup's gradient, a step by it, whose row numbers go through something)."""
    table = sok.DynamicVariable(2, name="moving", initializer="0", **options)
    keys = tf.placeholder(tf.int64, [None])
    loss = tf.reduce_sum(sok.all2all_dense_embedding(table, keys))
    gradient, = tf.gradients(loss, [table])
    given = tf.IndexedSlices(tf.identity(gradient.values), through(gradient.indices), gradient.dense_shape)
    return keys, loss, gradient, make().apply_gradients([(given, table)]), sok.export(table)


def _by_key(exported):
    return {int(key): row.tolist() for key, row in zip(*exported)}


@pytest.mark.parametrize("options", [dict(max_capacity=4), dict(cache_rows=4)])
@pytest.mark.parametrize("through", [tf.identity, lambda indices: tf.unique(tf.cast(indices, tf.int64))[0]])
@pytest.mark.parametrize("make", [lambda: tf.train.GradientDescentOptimizer(1.0), lambda: sok.OptimizerWrapper(
    tf.train.AdagradOptimizer(1.0)), lambda: sok.SGD(1.0)])
def test_row_numbers_of_another_run_may_not_be_fed_where_rows_move(options, through, make):
    with graph():
        keys, loss, gradient, step, exported = _trained(options, make, through)
        with session() as running:
            found = running.run(gradient, {keys: [2]})
            for key in range(4, 9):
                running.run(step, {keys: [key]})
            before = _by_key(running.run(exported))
            for fed in {gradient: found}, {gradient.indices: found.indices, keys: [8]}:
                # A run that looks the table up besides does not make them its own.
                for fetched in ([step], [step, loss]) if keys in fed else ([step],):
                    with pytest.raises(ValueError, match="embedding table 'moving', whose rows .*: got row numbers fed"
                                                         ".*expected a lookup's of the same session.run"):
                        running.run(fetched, fed)
            assert _by_key(running.run(exported)) == before
            # Values for the rows that the run looks up are its own business.
            running.run(step, {keys: [9], gradient.values: [[3.0, 4.0]]})
            assert 9 in _by_key(running.run(exported))
            handle = running.partial_run_setup([step], [gradient.indices, gradient.values])
            with pytest.raises(ValueError, match="embedding table 'moving'"):
                running.partial_run(handle, step, {gradient.indices: found.indices, gradient.values: found.values})


@pytest.mark.parametrize("regularized", [False, True])
@pytest.mark.parametrize("make", [
    lambda: tf.train.GradientDescentOptimizer(1.0), lambda: tf.keras.optimizers.SGD(1.0), lambda: sok.SGD(1.0)])
def test_a_dense_gradient_of_another_run_may_not_be_fed_where_rows_leave(regularized, make):
    """That of lookups which are made once more for their gradient, and that of a regularizer of the whole table."""
    with graph():
        table = sok.DynamicVariable(2, name="moving", initializer="0", init_capacity=4, max_capacity=4)
        keys = tf.placeholder(tf.int64, [None])
        loss = tf.reduce_sum(_recompute()(lambda given: 1.0 * sok.all2all_dense_embedding(table, given))(keys))
        gradient, = tf.gradients(loss + tf.nn.l2_loss(table) if regularized else loss, [table])
        scaled = 2.0 * gradient
        step, exported = make().apply_gradients([(scaled, table)]), sok.export(table)
        with session() as running:
            running.run(step, {keys: [2]})
            assert _by_key(running.run(exported)) == {2: [-2, -2]}
            found = running.run(gradient, {keys: [2]})
            for first in 4, 8:
                running.run(loss, {keys: range(first, first + 4)})
            before = _by_key(running.run(exported))
            assert 2 not in before
            for fed in {gradient: found}, {scaled: found}, {gradient: found, keys: [8]}:
                with pytest.raises(ValueError, match="'moving', whose rows leave at max_capacity: got a dense gradient "
                                                     "fed .*expected a lookup's of the same session.run"):
                    running.run(step, fed)
            assert _by_key(running.run(exported)) == before


@pytest.mark.parametrize("options", [dict(max_capacity=4), dict(cache_rows=4)])
def test_row_numbers_out_of_a_staging_area_are_refused_where_rows_move(options):
    with graph():
        area = data_flow_ops.StagingArea([tf.int32])

        def through(indices):
            area.put([indices])
            return tf.reshape(area.get()[0], [-1])

        with pytest.raises(ValueError, match="embedding table 'moving', .* whose row numbers come from op .*Unstage"):
            _trained(options, lambda: tf.train.GradientDescentOptimizer(1.0), through)


@pytest.mark.parametrize("options", [dict(max_capacity=4), dict(cache_rows=4)])
@pytest.mark.parametrize("make", [lambda: tf.train.GradientDescentOptimizer(1.0), lambda: sok.SGD(1.0)])
def test_row_numbers_of_unknown_origin_must_be_of_rows_that_the_run_has_looked_up(options, make):
    kept = []

    def keep(indices):
        kept.append(indices)
        return kept[0]

    with graph():
        keys, loss, gradient, step, exported = _trained(
            options, make, lambda indices: tf.reshape(tf.py_func(keep, [indices], tf.int32), [-1]))
        with session() as running:
            running.run(step, {keys: [2]})  # its own
            assert _by_key(running.run(exported)) == {2: [-1, -1]}
            for key in range(4, 9):
                kept.clear()
                running.run(step, {keys: [key]})
            before = _by_key(running.run(exported))
            assert before[8] == [-1, -1]
            kept[:] = [np.array([0], np.int32)]
            running.run(loss, {keys: [8]})
            if _row_of(running, 8) == 0:
                kept[:] = [np.array([1], np.int32)]
            with pytest.raises(tf.errors.InvalidArgumentError, match="embedding table 'moving' on rank 0: got row "
                                                                     ".*looked up in the same session.run"):
                running.run(step, {keys: [8]})
            assert {key: row for key, row in _by_key(running.run(exported)).items() if key != 8} == {
                key: row for key, row in before.items() if key != 8}


@pytest.mark.parametrize("options", [dict(max_capacity=8), dict(cache_rows=4), dict(max_capacity=8, cache_rows=4)])
def test_a_branch_that_is_not_taken_leaves_rows_alone(options):
    """TensorFlow has zeros there for the gradient of the whole variable, and adds them to the lookups'."""
    with graph():
        table = sok.DynamicVariable(2, name="moving", initializer="0", **options)
        keys, taken = tf.placeholder(tf.int64, [None]), tf.placeholder(tf.bool, [])
        rows = sok.all2all_dense_embedding(table, keys)
        loss = tf.cond(taken, lambda: tf.reduce_sum(rows), lambda: tf.reduce_sum(
            2 * sok.all2all_dense_embedding(table, keys + 1)) + tf.reduce_sum(rows))
        step = sok.DistributedOptimizer(tf.train.GradientDescentOptimizer(1.0), average=False).minimize(
            loss, var_list=[table])
        exported, expected = sok.export(table), {}
        with session() as running:
            for batch, branch in (([1, 2], True), ([5], True), ([5], False), ([7, 2], True), ([1], False)):
                running.run(step, {keys: batch, taken: branch})
                for key in batch:
                    expected[key] = expected.get(key, 0) - 1
                    if not branch:
                        expected[key + 1] = expected.get(key + 1, 0) - 2
                assert _by_key(running.run(exported)) == {key: [row, row] for key, row in expected.items()}


def _recompute():
    return tf.recompute_grad if hasattr(tf, "recompute_grad") else tf.contrib.layers.recompute_grad


def _row_of(running, key):
    index = running.run(running.graph.get_tensor_by_name("moving/index/Read/ReadVariableOp:0"))
    return int(index[index[:, 0] == key, 1][0])

"""A step with gradients that are not as a lookup's gradient has made them does what TensorFlow's does."""
import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from given_gradients import OPTIMIZERS, D, Model, V
from sok1x_cases import graph, session

import sok1x as sok


@pytest.mark.parametrize("name", sorted(OPTIMIZERS))
def test_equal_rows_are_added_up(name, seed):
    """By hand, fed in the place of a lookup's, of two lookups, of another table's lookup: as dense gradients."""
    random = np.random.RandomState(seed)
    with graph():
        model = Model()
        rows = np.array([2, 5, 2, 0, 5, 2])
        # Terms of one number have one sign: Adam's step is smaller where a sum is not far above its epsilon.
        signs = np.where((rows[:, None] + np.arange(D)) % 2, 1, -1)
        given = (signs * (0.1 + np.abs(random.normal(size=[6, D])))).astype(np.float32)
        slices = tf.IndexedSlices(tf.constant(given), tf.constant(rows, tf.int64))
        two = tf.IndexedSlices(tf.concat([model.slices.values] * 2, 0), tf.concat([model.slices.indices] * 2, 0))
        foreign = tf.IndexedSlices(model.others.values, model.others.indices % 4)
        own = {model.slices.values: given, model.slices.indices: rows.astype(np.int32)}
        cases = [(slices, None, None), (model.slices, own, (given, rows)), (two, None, None), (foreign, None, None),
                 (model.slices, None, None), (tf.IndexedSlices(tf.zeros([0, D]), tf.zeros([0], tf.int32)), None, None)]
        steps = []
        for gradient, _, _ in cases:
            optimizer = OPTIMIZERS[name]()
            steps.append(optimizer.apply_gradients([(gradient, model.shard)]))
        with session() as run:
            for (gradient, feed, fed), step in zip(cases, steps):
                values, indices = fed or run.run([gradient.values, gradient.indices])
                total = np.zeros([V, D])
                np.add.at(total, indices, values)
                before = run.run(model.shard)
                run.run(step, feed)
                moved = before - run.run(model.shard)
                if name == "operations.gradient_descent.step":
                    np.testing.assert_allclose(moved, 0.5 * total, rtol=1e-5, atol=1e-6)
                else:  # Adam's first step is the learning rate, against the sum's sign
                    np.testing.assert_allclose(moved, 0.5 * np.sign(total), rtol=1e-2, atol=1e-6)
            assert run.run(model.shard.stamps)[[0, 2, 5]].all()


def test_a_learning_rate_for_each_column_is_tensorflows():
    with graph():
        model = Model()
        optimizer = sok.DistributedOptimizer(tf.train.GradientDescentOptimizer(tf.constant([1.0, 2.0, 3.0, 4.0])))
        step = optimizer.apply_gradients([(tf.IndexedSlices(tf.ones([1, D]), tf.constant([3])), model.shard)])
        with session() as run:
            before = run.run(model.shard)
            run.run(step)
            np.testing.assert_allclose((before - run.run(model.shard))[3], [1, 2, 3, 4])

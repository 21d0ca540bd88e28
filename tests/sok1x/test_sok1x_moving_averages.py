"""`tf.train.ExponentialMovingAverage` of tables, against the same of a variable of TensorFlow's."""
import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import sok1x as sok
from sok1x import deeprec

TABLES = {
    "hashed": lambda: sok.EmbeddingVariable(rows=4, dim=2, initializer="ones"),
    "growing": lambda: sok.EmbeddingVariable(rows=None, dim=2, initializer="ones"),
    "DeepRec's": lambda: deeprec.get_embedding_variable("items", 2, initializer=tf.ones_initializer()),
}


@pytest.fixture(autouse=True)
def graph():
    sok.init()
    with tf.Graph().as_default() as made:
        yield made


@pytest.mark.parametrize("kind", sorted(TABLES))
def test_rows_that_come_later_have_no_average(kind):
    table, dense = TABLES[kind](), tf.get_variable("dense", [3], use_resource=True)
    average = tf.train.ExponentialMovingAverage(0.5)
    for given in ((), ([dense, table],), (iter([table]),)):
        with pytest.raises(ValueError, match="table .{}.: got it for tf.train.Exp".format(table.table.name)):
            average.apply(*given)
    if tf.VERSION.startswith("1."):
        import tensorflow.contrib.opt as contrib
        optimizer = contrib.MovingAverageOptimizer(tf.train.GradientDescentOptimizer(0.1))
        with pytest.raises(ValueError, match="ExponentialMovingAverage, whose averages begin"):
            optimizer.apply_gradients([(tf.ones([3]), dense), (tf.IndexedSlices(tf.ones([1, 2]), [0], [4, 2]), table)])
    average.apply(iter(sok.split_embedding_variable_from_others(tf.trainable_variables())[1]))
    assert average.average(dense) is not None and average.average(table) is None


def test_rows_that_are_there_from_the_start_have_one(seed):
    first, added = np.random.RandomState(seed).randn(2, 4, 2).astype(np.float32)
    pair = [sok.Variable(first, name="table"), tf.get_variable("stock", initializer=first, use_resource=True)]
    averages = tf.train.ExponentialMovingAverage(0.5)
    with tf.control_dependencies([variable.assign_add(added, read_value=False) for variable in pair]):
        step = averages.apply(pair)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(3):
            session.run(step)
        ours, theirs = session.run([averages.average(variable) for variable in pair])
    np.testing.assert_array_equal(ours, theirs)
    assert (ours != first).any()

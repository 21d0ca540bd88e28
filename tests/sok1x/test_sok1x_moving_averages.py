"""`tf.train.ExponentialMovingAverage` of tables, against the same of a variable of TensorFlow's."""
import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from ranks import run_ranks

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


EVALUATED = """
import sys
import numpy as np
import tensorflow.compat.v1 as tf
import sok1x as sok
from sok1x import launch

tf.logging.set_verbosity(tf.logging.ERROR)
sok.init()
first = np.random.RandomState(int(sys.argv[2])).randn(6, 2).astype(np.float32)


def model():
    average = tf.train.ExponentialMovingAverage(0.5)
    table, dense = sok.Variable(first, name="items"), tf.get_variable("dense", initializer=first, use_resource=True)
    ids = tf.SparseTensor([[key, 0] for key in range(6)], tf.range(6, dtype=tf.int64), [6, 1])
    rows, = sok.lookup_sparse([table], [ids], combiners=["sum"])
    optimizer = sok.OptimizerWrapper(tf.train.GradientDescentOptimizer(1.0 / launch.current().size))
    step = optimizer.apply_gradients(zip(tf.gradients(tf.reduce_sum(rows), [table]), [table]))
    with tf.control_dependencies([step, dense.assign_sub(tf.ones_like(dense), read_value=False)]):
        return [table, dense], rows, average, average.apply([table, dense])


_, _, _, step = model()
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    for _ in range(3):
        session.run(step)
    tf.train.Saver().save(session, sys.argv[1])
expected, value = first.astype(np.float64), first.astype(np.float64)
for _ in range(3):
    value = value - 1
    expected = (expected + value) / 2
tf.reset_default_graph()
variables, rows, average, _ = model()
take = tf.group(*[tf.assign(variable, average.average(variable)) for variable in variables])
with tf.Session() as session:
    if launch.current().size > 1:
        try:
            tf.train.Saver(average.variables_to_restore()).restore(session, sys.argv[1])
        except sok.checkpoint.CheckpointError as error:
            assert "gives 'items' another name, 'items/ExponentialMovingAverage'" in str(error), error
        else:
            raise AssertionError("restored under another name")
    tf.train.Saver().restore(session, sys.argv[1])
    session.run(take)
    for found in session.run([rows, variables[1]]):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
print("ok")
"""


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_table_is_evaluated_by_its_average(ranks, tmp_path, seed):
    """As docs/checkpoints.md says, of a model that was saved as a whole."""
    finished = run_ranks(ranks, EVALUATED, str(tmp_path / "model.ckpt"), seed % 10 ** 6)
    assert finished.out.split() == ["ok"] * ranks, str(finished)

"""Rows that are not those of a DynamicVariable's keys: they are not assigned, and nothing is looked up among them."""
import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from sok1x_cases import graph, session

import sok1x as sok


def test_rows_of_another_number_are_no_table():
    """Keras' HDF5 files have rows alone: those of a table that has grown are none of a fresh one. As many are taken."""
    with graph():
        table = sok.DynamicVariable(dimension=2, initializer="1", init_capacity=4)
        keys = tf.placeholder(tf.int64, [None])
        given = tf.placeholder(tf.float32, [None, 2])
        looked_up, assigned = sok.all2all_dense_embedding(table, keys), table.assign(given)
        halved = table.assign(table / 2.0)
        with session() as run:
            run.run(halved)  # a rank may have no key of a table yet
            with pytest.raises(tf.errors.InvalidArgumentError, match="rows for a table without keys: rows alone"):
                run.run(assigned, {given: np.zeros([4, 2])})
            run.run(looked_up, {keys: [5, 6]})
            for count in (2, 16):
                with pytest.raises(tf.errors.InvalidArgumentError, match="another number of rows.*rows alone"):
                    run.run(assigned, {given: np.zeros([count, 2])})
            np.testing.assert_array_equal(run.run(looked_up, {keys: [6, 5]}), np.ones([2, 2]))
            run.run(assigned, {given: np.full([4, 2], 3.0)})
            np.testing.assert_array_equal(run.run(looked_up, {keys: [6, 5]}), np.full([2, 2], 3.0))
            run.run(halved)
            np.testing.assert_array_equal(run.run(looked_up, {keys: [6, 5]}), np.full([2, 2], 1.5))
            run.run(looked_up, {keys: np.arange(30)})  # it grows
            np.testing.assert_array_equal(run.run(looked_up, {keys: [6, 5]}), np.full([2, 2], 1.5))


@pytest.mark.parametrize("count", [1, 3, 16])
@pytest.mark.parametrize("lookups", ["one", "two", "bags", "python"])
def test_nothing_is_looked_up_among_rows_of_another_number(lookups, count, monkeypatch):
    """Nobody sees `load`, or TensorFlow's own ops, give a table other rows than it has keys and stamps for."""
    if lookups == "python":
        monkeypatch.setenv("SOK1X_FUSE", "0")
    with graph():
        keys = tf.placeholder(tf.int64, [None])
        tables = [sok.DynamicVariable(dimension=2, initializer="1", init_capacity=4, name="items{}".format(number))
                  for number in range(2 if lookups == "two" else 1)]
        if lookups == "bags":
            ids = tf.RaggedTensor.from_row_lengths(keys, [tf.size(keys, out_type=tf.int64)])
            found = [sok.lookup_sparse(tables[0], ids, combiners="sum")]
        else:
            found = [sok.all2all_dense_embedding(table, keys) for table in tables]
        loss = tf.add_n([tf.reduce_sum(one) for one in found])
        optimizer = sok.OptimizerWrapper(tf.train.AdagradOptimizer(0.5))
        step = optimizer.apply_gradients(zip(tf.gradients(loss, tables), tables))
        given = tf.placeholder(tf.float32, [None, 2])
        replaced = tf.raw_ops.AssignVariableOp(resource=tables[0].handle, value=given)
        with session() as run:
            run.run(step, {keys: [5, 6, 7]})
            before = run.run(found, {keys: [5, 6, 7]})
            rows = run.run(tables[0])
            run.run(replaced, {given: np.zeros([count, 2])})
            for fetch in (found, step, found):
                with pytest.raises(tf.errors.FailedPreconditionError) as caught:
                    run.run(fetch, {keys: [7, 6, 5, 8]})
                for words in ("embedding table 'items0' on rank 0: got {} rows".format(count), "expected 4",
                              "sok.assign(table, keys, values)"):
                    assert words in str(caught.value), caught.value
            tables[0].load(rows, run)
            for one, expected in zip(run.run(found, {keys: [5, 6, 7]}), before):
                np.testing.assert_array_equal(one, expected)

"""Many tables: what a dump and a load ask of TensorFlow does not depend on how many there are.

TensorFlow prepares the whole graph for each new `session.run`: with one for each table a dump of 300 took minutes.
"""
import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import sok1x as sok
from sok1x.checkpoint.errors import CheckpointError, DamagedError
from sok1x.dump_load.shard_source import ShardSource
from sok1x.graph_ops.operations import embedding
from sok1x.graph_ops.transfer import shard_load


class Counting(tf.Session):
    """Counts what is run."""

    runs = 0

    def run(self, *arguments, **options):
        self.runs += 1
        return super().run(*arguments, **options)


def runs_of(folder, count, with_slots):
    """(of a dump, of a load), and that what is loaded is what was dumped."""
    sok.init()
    with tf.Graph().as_default(), Counting() as session:
        made = []
        for number in range(count):
            kind = number % 4
            options = dict(dimension=number % 5 + 1, initializer="normal", name="table{}".format(number))
            made.append(
                sok.Variable(shape=[7, 3], initializer="normal", name="table{}".format(number)) if kind == 0 else
                sok.DynamicVariable(var_type="hbm", init_capacity=4, **options) if kind == 1 else
                sok.DynamicVariable(max_capacity=6, **options) if kind == 2 else
                sok.DynamicVariable(cache_rows=3, **options))
        ids = tf.RaggedTensor.from_row_lengths(tf.constant([5, 1, 3], tf.int64), [2, 1])
        optimizer = sok.OptimizerWrapper(tf.train.AdagradOptimizer(0.1))
        found = sok.lookup_sparse(made, [ids] * count, combiners="sum")
        step = optimizer.apply_gradients(zip(tf.gradients(sum(map(tf.reduce_sum, found)), made), made))
        session.run(tf.global_variables_initializer())
        session.run(step)
        given = optimizer if with_slots else None
        before = session.runs
        sok.dump(folder, made, given, session)
        dumped = session.runs - before
        expected = [sok.export(table, session) for table in made]
        session.run(step)
        before = session.runs
        sok.load(folder, made, given, session)
        loaded = session.runs - before
        for table, (keys, rows) in zip(made, expected):
            now = dict(zip(*(part.tolist() for part in sok.export(table, session))))
            assert now == dict(zip(keys.tolist(), rows.tolist())), table.name
    return dumped, loaded


@pytest.mark.parametrize("with_slots", [False, True])
def test_runs_do_not_depend_on_the_number_of_tables(tmp_path, with_slots):
    few, many = (runs_of(str(tmp_path / str(count)), count, with_slots) for count in (4, 16))
    assert few == many and max(few) <= 8


@pytest.mark.parametrize("with_slots", [False, True])
def test_a_load_that_fails_leaves_no_slots_of_other_keys(tmp_path, monkeypatch, with_slots):
    """Some tables have been loaded then, one is empty, and others have what they had."""
    sok.init()
    names = ("one", "other", "third")
    with tf.Graph().as_default(), tf.Session() as session:
        tables = [sok.DynamicVariable(dimension=2, initializer="ones", init_capacity=8, name=name) for name in names]
        ids = tf.placeholder(tf.int64, [None])
        optimizer = sok.OptimizerWrapper(tf.train.AdagradOptimizer(0.1))
        loss = sum(tf.reduce_sum(sok.all2all_dense_embedding(table, ids)) for table in tables)
        step = optimizer.apply_gradients(zip(tf.gradients(loss, tables), tables))
        session.run(tf.global_variables_initializer())
        given = optimizer if with_slots else None
        session.run(step, {ids: [7, 9]})
        sok.dump(str(tmp_path / "dumped"), tables, given, session)
        session.run([table.initializer for table in tables] + [slot.initializer for slot in optimizer.variables()])
        for _ in range(5):
            session.run(step, {ids: [1, 2]})
        before = {name: [part.tolist() for part in sok.export(table, session)] for name, table in zip(names, tables)}
        chunks = ShardSource.chunks

        def fail(source):
            if source._table.name != "other":
                return chunks(source)
            source.begun = True
            raise DamagedError("a disk that fails")

        monkeypatch.setattr(ShardSource, "chunks", fail)
        with pytest.raises(DamagedError, match="a disk that fails"):
            sok.load(str(tmp_path / "dumped"), tables, given, session)
        for name, table in zip(names, tables):
            keys = sok.export(table, session)[0].tolist()
            slot, = [one for one in optimizer.variables() if one.op.name.startswith(name + "/")]
            values = session.run(slot)
            if name == "other":
                assert keys == [] and np.allclose(values, 0.1)
            elif keys == [7, 9]:  # Adagrad begins with 0.1, to which each step of these adds 1
                assert np.allclose(values[:2], 1.1 if with_slots else 0.1) and np.allclose(values[2:], 0.1)
            else:
                assert [part.tolist() for part in sok.export(table, session)] == before[name]
                assert np.allclose(values[:2], 5.1)


@pytest.mark.parametrize("kind", ["growing", "fixed"])
def test_slots_begin_anew_only_once_their_table_is_replaced(tmp_path, monkeypatch, kind):
    """Of rows that keys have now and will not have then. A load that fails before that changes nothing."""
    sok.init()
    with tf.Graph().as_default(), tf.Session() as session:
        table = sok.EmbeddingVariable(rows=8, dim=2, initializer="ones") if kind == "fixed" else sok.DynamicVariable(
            dimension=2, initializer="ones", init_capacity=8)
        ids = tf.placeholder(tf.int64, [None])
        optimizer = sok.OptimizerWrapper(tf.train.AdagradOptimizer(0.1))
        rows = embedding.lookup_dense(table.table_variables, ids, True)
        step = optimizer.apply_gradients([(tf.IndexedSlices(tf.ones([3, 2]), tf.range(3), tf.constant([8, 2])), table)])
        slot, = optimizer.variables()
        session.run(tf.global_variables_initializer())
        session.run(rows, {ids: [7, 9]})
        session.run(step)
        sok.dump(str(tmp_path), table, optimizer, session)
        session.run(rows, {ids: [5]})
        session.run(step)
        before = session.run([slot, table] + list(table.index))
        assert before[0][:4].tolist() == [[np.float32(2.1)] * 2] * 3 + [[np.float32(0.1)] * 2]
        with monkeypatch.context() as patched:
            patched.setattr(shard_load, "check_total", lambda store, total: 1 / 0)
            with pytest.raises(CheckpointError, match="division by zero"):
                sok.load(str(tmp_path), table, optimizer, session)
        for one, two in zip(session.run([slot, table] + list(table.index)), before):
            np.testing.assert_array_equal(one, two)
        sok.load(str(tmp_path), table, optimizer, session)
        assert sok.export(table, session)[0].tolist() == [7, 9]
        np.testing.assert_allclose(session.run(slot)[:, 0], [1.1] * 2 + [0.1] * 6)

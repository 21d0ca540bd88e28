"""Savers of many tables: as many session.runs as with few, for TensorFlow prepares the whole graph for each new one."""
import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import sok1x as sok
from sok1x.checkpoint.session import preparing

FEW, MANY = 2, 7


def restored(count, tmp_path, monkeypatch, tables_alone):
    """A model of so many tables, in a new session, and how many session.runs its restore took there."""
    with tf.Graph().as_default() as graph:
        keys = tf.constant([[[3]], [[5]]], tf.int64)
        tables = [sok.All2AllDenseEmbedding(8 + number % 3, 2, 1, 1, name="l{}".format(number),
                                            use_hashtable=number % 2 == 0) for number in range(count)]
        loss = tf.add_n([tf.reduce_sum(table(keys) ** 2) for table in tables])
        step = sok.DistributedOptimizer(tf.train.AdagradOptimizer(0.1)).minimize(loss)
        variables = [table.embedding_variable for table in tables]
        saver = tf.train.Saver(variables if tables_alone else None)
        path, found = str(tmp_path / "saved{}".format(count)), []
        for new in (False, True):
            with tf.Session(graph=graph) as session:
                session.run(sok.Init(global_batch_size=2))
                if not new:
                    session.run(tf.global_variables_initializer())
                    session.run(step)
                    saver.save(session, path)
                    found.append(session.run([sok.export(variable) for variable in variables]))
                    continue
                if tables_alone:  # the slots are not restored
                    session.run([one.initializer for one in tf.global_variables() if "Adagrad" in one.name])
                runs, run = [], tf.Session.run
                with monkeypatch.context() as patch:
                    patch.setattr(tf.Session, "run", lambda *arguments, **kw: runs.append(1) or run(*arguments, **kw))
                    saver.restore(session, path)
                found.append(session.run([sok.export(variable) for variable in variables]))
    for before, after in zip(*found):
        for left, right in zip(before, after):
            np.testing.assert_array_equal(left, right)
    return len(runs)


def test_growing_tables_begin_together_before_a_restore(tmp_path, monkeypatch):
    """Their variables say nothing of V: with a session.run for each of them a restart of 64 tables took two minutes."""
    batches = []
    batched = preparing._batches
    monkeypatch.setattr(preparing, "_batches", lambda wanted: batches.append(batched(wanted)) or batches[-1])
    with tf.Graph().as_default() as graph:
        tables = [sok.All2AllDenseEmbedding(None, 2, 1, 1, name="g{}".format(number)) for number in range(MANY)]
        loss = tf.add_n([tf.reduce_sum(table(tf.constant([[[3]]], tf.int64)) ** 2) for table in tables])
        step = tf.train.AdagradOptimizer(0.1).minimize(loss)
        manager = sok.CheckpointManager(str(tmp_path))
        for new in (False, True):
            with tf.Session(graph=graph) as session:
                session.run(sok.Init(global_batch_size=1))
                if not new:
                    session.run(tf.global_variables_initializer())
                    session.run(step)
                    manager.save(session, 1)
                    before = session.run(loss)
                else:
                    assert manager.restore(session) == 1
                    assert session.run(loss) == before
    assert len(batches) == 1 and len(batches[0]) == 1 and len(batches[0][0]) >= 5 * MANY
    # What is large still begins by itself: until a variable has its first value it takes its memory twice.
    variable = tables[0].embedding_variable
    rows = preparing.TOGETHER_BYTES // 16
    assert [len(batch) for batch in batched([(variable, rows), (variable, rows), (variable, 8), (variable, 8)])] == \
        [1, 1, 2]


@pytest.mark.parametrize("tables_alone", [False, True], ids=["all", "tables alone"])
def test_restores_of_many_tables_take_no_more_runs(tmp_path, monkeypatch, tables_alone):
    few, many = (restored(count, tmp_path, monkeypatch, tables_alone) for count in (FEW, MANY))
    assert many <= few + 1, (few, many)

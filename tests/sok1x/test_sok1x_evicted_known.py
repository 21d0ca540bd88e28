"""Of which steps it is known which keys have left since, for who follows a table: after loads and restores, too."""
import datetime

import pytest
import tensorflow.compat.v1 as tf
from forgetful_model import DIM, Model

import sok1x as sok
from sok1x.core.embedding_variable import EmbeddingVariable
from sok1x.graph_ops.operations import evictions
from sok1x.graph_ops.stores.forgetting import KNOWN


def test_what_left_before_a_load_is_not_known_at_step_0_either(graph, tmp_path):
    model = Model(max_capacity=2, evict_strategy="lru", remember_evicted=9)
    model.train([1, 2])
    with model.session.as_default():
        sok.dump(str(tmp_path / "dumped"), [model.table])
    for cache in ({}, {"cache_rows": 2}):
        with tf.Graph().as_default():  # a new process: no step has been counted
            table = sok.DynamicVariable(dimension=DIM, name=model.table.table.name, max_capacity=4, remember_evicted=9,
                                        **cache)
            ids = tf.placeholder(tf.int64, [None])
            rows = sok.all2all_dense_embedding(table, ids)
            with tf.Session() as session:
                session.run(tf.global_variables_initializer())
                assert sok.evicted_keys(table, -1, session)[1]
                sok.load(str(tmp_path / "dumped"), [table])
                for batch, left in (([], []), ([3, 4], []), ([5, 4], [1])):
                    session.run(rows, {ids: batch})
                    # Whoever has followed the former process may have keys that left there.
                    assert not sok.evicted_keys(table, -1, session)[1]
                    now = datetime.datetime.utcnow() - datetime.timedelta(hours=1)
                    assert sok.incremental_model_dump([table], now, session, evicted=True)[3] == [False]
                    # So may who has asked at step 0: rows came, and left, before the first gradient, at step 1.
                    keys, complete = sok.evicted_keys(table, 0, session)
                    assert not complete and keys.tolist() == left
                    keys, complete = sok.evicted_keys(table, 1, session)
                    assert complete and keys.tolist() == []


@pytest.mark.parametrize("way", ["saver", "manager", "dump"])
@pytest.mark.parametrize("cache", [{}, {"cache_rows": 6}])
def test_who_follows_a_table_learns_that_it_was_taken_back(tmp_path, way, cache):
    """A follower goes by evicted_keys and incremental_dump alone, and always has what the table has."""
    with tf.Graph().as_default():
        table = sok.DynamicVariable(dimension=DIM, name="taken_back", max_capacity=8, remember_evicted=1000,
                                    initializer="0", **cache)
        ids = tf.placeholder(tf.int64, [None])
        loss = tf.reduce_sum(sok.all2all_dense_embedding(table, ids))
        step = sok.OptimizerWrapper(tf.train.AdagradOptimizer(1.0)).apply_gradients(
            [(tf.gradients(loss, table)[0], table)])
        exported = sok.export(table)
        saver, manager = tf.train.Saver(), sok.CheckpointManager(str(tmp_path / "manager"))
        with tf.Session() as session:
            sok.init()
            session.run(tf.global_variables_initializer())
            save = {"saver": lambda: saver.save(session, str(tmp_path / "saver")),
                    "manager": lambda: manager.save(session, 1),
                    "dump": lambda: sok.dump(str(tmp_path / "dumped"), [table], session=session)}[way]
            load = {"saver": lambda: saver.restore(session, str(tmp_path / "saver")),
                    "manager": lambda: manager.restore(session),
                    "dump": lambda: sok.load(str(tmp_path / "dumped"), [table], session=session)}[way]
            known, since, wholes = {}, -1, []

            def follow():
                nonlocal since
                now = int(session.run(table.steps))
                gone, complete = sok.evicted_keys(table, since, session)
                if not complete:
                    known.clear()
                    wholes.append(now)
                changed = sok.incremental_dump(table, since if complete else -1, session)
                for key in gone if complete else ():
                    known.pop(int(key), None)
                known.update((int(key), row.tolist()) for key, row in zip(*changed))
                assert known == {int(key): row.tolist() for key, row in zip(*session.run(exported))}, (since, now)
                since = now

            def train(*batches):
                for batch in batches:
                    session.run(step, {ids: batch})

            train([1, 2, 3], [3, 4])
            follow()
            save()
            load()  # nothing has changed, but nobody would know
            follow()
            train([5, 6, 7], [8, 9, 10], [11, 12])
            follow()
            load()
            train([20])
            follow()
            train([21], [22], [23, 24], [25], [26])  # as many steps as the follower has seen, and more
            follow()
            load()
            train([30], [31], [32], [33], [34], [35], [36], [37, 38])
            follow()
            wholes.clear()
            for batch in ([1], [2], [3, 39], [40]):
                train(batch)
                follow()
            assert not wholes  # all is known again


@pytest.mark.parametrize("evict, remembered, incomplete", [  # in the update after a save, and the one after that
    (sok.deeprec.GlobalStepEvict, None, []), (sok.deeprec.L2WeightEvict, None, []),
    (sok.deeprec.GlobalStepEvict, 7, [15, 16, 23, 24, 31, 32, 39]), (sok.deeprec.L2WeightEvict, 7, []),
    (sok.deeprec.GlobalStepEvict, 0, [7, 8, 15, 16, 23, 24, 31, 32, 39]),
    (sok.deeprec.L2WeightEvict, 0, [7, 8, 15, 16, 23, 24, 31, 32, 39])])
def test_who_follows_a_table_of_deeprec_learns_what_left_when_it_was_saved(
        graph, tmp_path, evict, remembered, incomplete):
    option = sok.deeprec.EmbeddingVariableOption(evict_option=evict(3, remember_evicted=remembered))
    sok.init()
    table = sok.deeprec.get_embedding_variable("items", DIM, initializer=tf.ones_initializer(), ev_option=option)
    ids = tf.placeholder(tf.int64, [None])
    # Of each batch the first key becomes large: it stays, where rows leave by their norms.
    loss = tf.reduce_sum(sok.all2all_dense_embedding(table, ids)[:1])
    train = tf.train.GradientDescentOptimizer(4.0).minimize(loss, tf.train.get_or_create_global_step())
    saver, exported = tf.train.Saver(), sok.export(table)
    known, since, whole = {}, -1, []
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for number in range(40):
            session.run(train, {ids: range(number, number + 3)})
            for saves in (True, False) if number % 8 == 7 else (False,):
                gone, complete = sok.evicted_keys(table, since, session)
                whole += [] if complete else [number]
                changed = sok.incremental_dump(table, since if complete else -1, session)
                known = {key: row for key, row in known.items() if complete and key not in gone}
                known.update(zip(changed[0].tolist(), changed[1].tolist()))
                assert known == {key: row.tolist() for key, row in zip(*session.run(exported))}
                since = int(session.run(table.steps))
                if saves:
                    held = len(known)
                    saver.save(session, str(tmp_path / "saved"))
                    assert len(session.run(exported)[0]) < held
    assert whole == incomplete


@pytest.mark.parametrize("names", ["", "own/"])
@pytest.mark.parametrize("saved, restored", [(0, 9), (9, 0), (9, 5)])
def test_checkpoints_go_from_tables_that_remember_keys_to_those_that_do_not_and_back(tmp_path, saved, restored, names):
    sok.init()
    for remembered in (saved, restored):
        with tf.Graph().as_default(), tf.Session() as session:
            table = EmbeddingVariable(rows=None, dim=DIM, leaves_when_asked=True, remember_evicted=remembered)
            ids, rows = tf.placeholder(tf.int64, [None]), tf.placeholder(tf.int64, [None])
            found = sok.all2all_dense_embedding(table, ids)
            leave = evictions.evict(table.table_variables, rows)
            exported = sok.export(table)
            saver = tf.train.Saver({names + one.op.name: one for one in tf.global_variables()} if names else None)
            if remembered is saved:
                session.run(tf.global_variables_initializer())
                session.run(found.op, {ids: range(10)})
                assert session.run(leave, {rows: [1, 4]}) == 2
                saver.save(session, str(tmp_path / "saved"))
            else:
                saver.restore(session, str(tmp_path / "saved"))
            assert sorted(session.run(exported)[0].tolist()) == [0, 2, 3, 5, 6, 7, 8, 9]
            if remembered is restored:
                session.run(found.op, {ids: [20]})
                assert session.run(leave, {rows: [0]}) == 1 and len(session.run(exported)[0]) == 8
                left, complete = sok.evicted_keys(table, -1, session)
                assert not complete  # keys may have left after the save, too
                assert left.tolist() == ([0, 1, 4] if saved and restored else [0] if restored else [])
                assert sok.evicted_keys(table, int(session.run(table.steps)) + 1, session)[1]


@pytest.mark.parametrize("way", ["saver", "objects"])
def test_a_table_that_remembers_nothing_does_not_know_what_one_that_does_has_forgotten(tmp_path, way):
    """Neither what left in the process before, nor in the one before that, whose rows it had loaded."""
    sok.init()
    for saves in (True, False):
        with tf.Graph().as_default(), tf.Session() as session:
            table = sok.DynamicVariable(DIM, "1", name="t", init_capacity=4, max_capacity=4,
                                        remember_evicted=100 if saves else 0)
            ids = tf.placeholder(tf.int64, [None])
            loss = tf.reduce_sum(sok.all2all_dense_embedding(table, ids))
            train = tf.train.GradientDescentOptimizer(0.1).minimize(loss, tf.train.get_or_create_global_step())
            path, saver, objects = str(tmp_path / "saved"), tf.train.Saver(), tf.train.Checkpoint(table=table)
            if saves:
                session.run(tf.global_variables_initializer())
                session.run(train, {ids: [1, 2, 3, 4]})
                sok.dump(str(tmp_path / "dump"), table, session=session)
                sok.load(str(tmp_path / "dump"), table, session=session)
                for keys in ([1, 2, 3, 4], [5, 6], [7, 8]):
                    session.run(train, {ids: keys})
                left, complete = sok.evicted_keys(table, 2, session)
                assert complete and left.tolist() == [1, 2, 3, 4]
                session.run(tf.nn.embedding_lookup(table, [9, 10]))  # what leaves does so at the step to come
            if way == "saver":
                saver.save(session, path) if saves else saver.restore(session, path)
            elif saves:
                objects.write(path, session=session)
            else:
                objects.restore(path).expect_partial().initialize_or_restore(session)
            steps = int(session.run(table.steps))
            assert steps == 4
            if not saves:
                assert [bool(sok.evicted_keys(table, since, session)[1]) for since in range(-1, 6)] == [False] * 6 + [
                    True]
                session.run(train, {ids: [20, 21]}) if way == "saver" else None
                assert not sok.evicted_keys(table, steps, session)[1]


def four_rows(remembered):
    """(a table of at most four rows, the keys that a step is given, the step)."""
    table = sok.DynamicVariable(DIM, "1", name="t", init_capacity=4, max_capacity=4, remember_evicted=remembered)
    ids = tf.placeholder(tf.int64, [None])
    loss = tf.reduce_sum(sok.all2all_dense_embedding(table, ids))
    return table, ids, tf.train.GradientDescentOptimizer(0.1).minimize(loss, var_list=[table])


@pytest.mark.parametrize("room", [3, 100])
def test_what_left_without_a_note_is_not_all_known(tmp_path, room):
    """A checkpoint of objects that has counters of a table that remembered nothing, as those of DeepRec did once."""
    sok.init()
    for remembered in (0, room):
        with tf.Graph().as_default(), tf.Session() as session:
            table, ids, train = four_rows(remembered)
            path, objects = str(tmp_path / "saved"), tf.train.Checkpoint(table=table)
            if not remembered:
                session.run(tf.global_variables_initializer())
                for keys in ([1, 2, 3, 4], [5, 6], [7, 8]):
                    session.run(train, {ids: keys})
                counters = session.run(table.forgetting["counters"])
                counters[KNOWN] = 0  # it was not noted
                session.run(table.forgetting["counters"].assign(counters))
                objects.write(path, session=session)
                continue
            objects.restore(path).expect_partial().initialize_or_restore(session)
            for since in range(-1, 4):
                left, complete = sok.evicted_keys(table, since, session)
                assert left.tolist() == [] and not complete, since
            session.run(train, {ids: [20, 21]})
            for since, expected in ((-1, [5, 6]), (2, [5, 6]), (3, [5, 6]), (4, [])):
                left, complete = sok.evicted_keys(table, since, session)
                assert left.tolist() == expected and complete == (since == 4), since
            for keys in ([22, 23], [24, 25]):
                session.run(train, {ids: keys})
            assert [bool(sok.evicted_keys(table, since, session)[1]) for since in (3, 4, 5, 6)] == [
                False, room > 3, True, True]


@pytest.mark.parametrize("room", [3, 100])
def test_what_left_before_a_restore_without_a_note_does_not_hide_what_is_known_since(tmp_path, room):
    """A checkpoint of objects of a table that remembered nothing: KNOWN has up to when that matters."""
    sok.init()
    for remembered in (0, room):
        with tf.Graph().as_default(), tf.Session() as session:
            table, ids, train = four_rows(remembered)
            path, objects = str(tmp_path / "saved"), tf.train.Checkpoint(table=table)
            if not remembered:
                session.run(tf.global_variables_initializer())
                for keys in ([1, 2, 3, 4], [5, 6], [7, 8]):
                    session.run(train, {ids: keys})
                objects.write(path, session=session)
                continue
            objects.restore(path).expect_partial().initialize_or_restore(session)
            for keys in ([7, 8], [7, 8]):  # steps 4 and 5: nothing leaves
                session.run(train, {ids: keys})
            for since, expected in ((3, False), (4, True), (5, True)):
                left, complete = sok.evicted_keys(table, since, session)
                assert left.tolist() == [] and complete == expected, since
            session.run(train, {ids: [20, 21]})  # 5 and 6 leave at step 6
            for since, expected, known in ((3, [5, 6], False), (4, [5, 6], True), (5, [5, 6], True), (6, [], True)):
                left, complete = sok.evicted_keys(table, since, session)
                assert left.tolist() == expected and complete == known, since

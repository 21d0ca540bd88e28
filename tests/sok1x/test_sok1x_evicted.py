"""Keys that have left a table: given out with their rows, remembered, and gone from checkpoints and dumps."""
import datetime

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from forgetful_model import DIM, Model, by_key

import sok1x as sok
from sok1x.core.embedding_variable import EmbeddingVariable
from sok1x.graph_ops.operations import evictions
from sok1x.graph_ops.stores.forgetting import KNOWN


def test_keys_that_leave_are_given_out_once_with_their_rows(graph):
    model = Model(max_capacity=8, evict_strategy="lru")
    read = sok.sparse_read_and_evict(model.table, tf.reshape(model.keys, [1, -1]))
    model.train(range(1, 9), np.arange(1, 9))
    model.train([2], [2.0])
    session, given = model.session, {}
    for keys in ([20], [2, 21, 21], [22, 23], range(30, 38)):
        vectors, left, rows = session.run(read, {model.keys: list(keys)})
        assert vectors.shape == (1, len(keys), DIM) and rows.shape == (len(left), DIM)
        assert not set(left.tolist()) & set(given)
        given.update(zip(left.tolist(), rows[:, 0].tolist()))
        assert not set(left.tolist()) & model.held()
        assert [value for value in vectors[0, :, 0]] == [5.0 if key == 2 else 0.0 for key in keys]
    expected = {key: float(key) for key in range(1, 9)}
    expected.update({2: 5.0, 20: 0.0, 21: 0.0, 22: 0.0, 23: 0.0})
    assert given == expected
    assert session.run(read, {model.keys: [30]})[1].tolist() == []
    graph.finalize()
    with session.as_default():
        keys, complete = sok.evicted_keys(model.table, -1)  # a quarter of 8 are remembered
    assert len(keys) == 2 and not complete and set(keys.tolist()) <= set(given)


def test_evicted_keys_are_those_that_have_not_come_back(graph):
    model = Model(max_capacity=8, evict_strategy="lru", remember_evicted=6)
    for keys in ([1, 2, 3, 4, 5, 6, 7, 8], [9], [10, 1], [11]):  # 1; 2, 3; 4 leave
        model.train(keys)
    steps = model.session.run(model.table.steps)
    assert steps == 4
    for since, expected in ((-1, [2, 3, 4]), (2, [2, 3, 4]), (3, [4]), (4, [])):
        keys, complete = sok.evicted_keys(model.table, since, model.session)
        assert keys.tolist() == expected and complete, (since, keys)
        changed, _ = sok.incremental_dump(model.table, since, model.session)
        assert not set(changed.tolist()) & set(expected)
    model.train([12, 13, 14])  # 5, 6, 7: of the first step nothing is known any more
    keys, complete = sok.evicted_keys(model.table, 0, model.session)
    assert keys.tolist() == [2, 3, 4, 5, 6, 7] and not complete
    assert sok.evicted_keys(model.table, 3, model.session)[1]
    changed, _ = sok.incremental_dump(model.table, -1, model.session)
    assert set(changed.tolist()) == model.held() == {1, 8, 9, 10, 11, 12, 13, 14}


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
                    keys, complete = sok.evicted_keys(table, 0, session)
                    assert complete and keys.tolist() == left


@pytest.mark.parametrize("capacity", [12, 40])
def test_a_checkpoint_has_rows_in_use_and_their_scores(graph, tmp_path, seed, capacity):
    random = np.random.RandomState(seed)
    model = Model(max_capacity=12, evict_strategy="lfu", remember_evicted=3)
    for _ in range(9):
        keys = random.permutation(40)[:5]
        model.train(keys, keys + 1.0)
    with model.session.as_default():
        manager = sok.CheckpointManager(str(tmp_path / "saved"))
        manager.save(model.session, 9)
        sok.dump(str(tmp_path / "dumped"), [model.table])
    state = model.session.run(model.state)
    assert state["counters"][2] > 0
    file, = (tmp_path / "dumped").glob("*-key")
    assert sorted(np.frombuffer(file.read_bytes()[296:], np.int64).tolist()) == sorted(by_key(state))
    with tf.Graph().as_default(), tf.device("/cpu:0"):
        other = Model(max_capacity=capacity, evict_strategy="lfu", remember_evicted=3)
        again = sok.CheckpointManager(str(tmp_path / "saved"))
        other.train(range(100, 112))  # what has been there before is gone
        again.restore(other.session)
        restored = other.session.run(other.state)
        assert by_key(restored) == by_key(state)
        assert restored["counters"].tolist()[:3] == [max(state["used"]), 0, 0]
        # The free rows are gone, and all goes on by the same scores: rows have other numbers, and equal scores go by
        # these, so only what is certain is compared.
        assert not sok.evicted_keys(other.table, 0, other.session)[1]
        if capacity == 12:
            lowest = sorted(score for _, _, _, score in by_key(state).values())
            other.look_up([200, 201])
            left = set(by_key(state)) - other.held()
            assert {by_key(state)[key][3] for key in left} <= set(lowest[:len(left)])
            assert other.read([200]) == [0.0] and other.held() >= {200, 201}
            assert sok.evicted_keys(other.table, int(other.session.run(other.table.steps)), other.session)[1]


def test_rows_that_left_holes_are_not_handed_out_as_keys(graph, tmp_path):
    """Free rows in the middle: a failed insertion cannot leave them, but an eviction of more than is needed does."""
    model = Model(init_capacity=32, max_capacity=32, evict_strategy="lru")
    model.train(range(32), np.arange(32) + 1.0)
    model.train([50], [50.0])  # two leave
    model.session.run(model.table.assign(model.session.run(model.table)))  # all rows are marked as changed
    state = model.session.run(model.state)
    assert state["counters"][1] == 1
    for keys, values in (sok.export(model.table, model.session), sok.incremental_dump(model.table, 1, model.session)):
        assert sorted(keys.tolist()) == list(range(2, 32)) + [50]
        assert (values[:, 0] == np.where(keys == 50, 50, keys + 1)).all()
    manager = sok.CheckpointManager(str(tmp_path))
    manager.save(model.session, 1)
    manager.restore(model.session)
    assert by_key(model.session.run(model.state)) == by_key(state)
    assert model.session.run(model.state["count"]) == 31
    stats = model.session.run(sok.table_stats(model.table))
    assert (stats.rows_in_use, stats.capacity, stats.evictions) == (31, 32, 0)


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


@pytest.mark.parametrize("cache", [{}, {"cache_rows": 4}], ids=["", "cached"])
def test_keys_that_leave_in_steps_that_train_no_table(graph, cache, tmp_path):
    """Whoever asks since the global step before has them, and hears of a load."""
    sok.init()
    number, dense = tf.train.create_global_step(), tf.get_variable("dense", [2])
    table = sok.DynamicVariable(2, "1", name="t", max_capacity=16, **cache)
    keys = tf.placeholder(tf.int64, [None])
    loss = tf.reduce_sum(sok.all2all_dense_embedding(table, keys) * dense)
    both, frozen = [tf.train.AdagradOptimizer(0.1).minimize(loss, number, variables) for variables in (
        [table, dense], [dense])]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for key in range(14):
            session.run(both, {keys: [key]})
        sok.dump(str(tmp_path / "dump"), table, session=session)
        for key in (14, 15):
            session.run(frozen, {keys: [key]})
        session.run(frozen, {keys: [100, 101]})
        assert session.run(number) == 17
        for since, expected in ((15, [0, 1]), (16, [0, 1]), (17, [])):
            left, complete = sok.evicted_keys(table, since, session)
            assert left.tolist() == expected and complete, since
        sok.load(str(tmp_path / "dump"), table, session=session)
        for _ in range(2):
            for since in (13, 16, 17):
                assert not sok.evicted_keys(table, since, session)[1]
            assert sok.evicted_keys(table, 18, session)[1]
            session.run(frozen, {keys: [3]})


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


@pytest.mark.parametrize("saved, restored", [(0, 9), (9, 0), (9, 5)])
def test_checkpoints_go_from_tables_that_remember_keys_to_those_that_do_not_and_back(tmp_path, saved, restored):
    sok.init()
    for remembered in (saved, restored):
        with tf.Graph().as_default(), tf.Session() as session:
            table = EmbeddingVariable(rows=None, dim=DIM, leaves_when_asked=True, remember_evicted=remembered)
            ids, rows = tf.placeholder(tf.int64, [None]), tf.placeholder(tf.int64, [None])
            found = sok.all2all_dense_embedding(table, ids)
            leave = evictions.evict(table.table_variables, rows)
            saver, exported = tf.train.Saver(), sok.export(table)
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
                assert complete == (saved > 0 and restored > 0)
                assert left.tolist() == ([0, 1, 4] if complete else [0] if restored else [])
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


@pytest.mark.parametrize("room", [3, 100])
def test_what_left_without_a_note_is_not_all_known(tmp_path, room):
    """A checkpoint of objects that has counters of a table that remembered nothing, as those of DeepRec did once."""
    sok.init()
    for remembered in (0, room):
        with tf.Graph().as_default(), tf.Session() as session:
            table = sok.DynamicVariable(DIM, "1", name="t", init_capacity=4, max_capacity=4,
                                        remember_evicted=remembered)
            ids = tf.placeholder(tf.int64, [None])
            loss = tf.reduce_sum(sok.all2all_dense_embedding(table, ids))
            train = tf.train.GradientDescentOptimizer(0.1).minimize(loss, var_list=[table])
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

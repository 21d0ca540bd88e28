"""Keys that have left a table: given out with their rows, remembered, and gone from checkpoints and dumps."""
import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from forgetful_model import DIM, Model, by_key

import sok1x as sok


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
            # Who has followed the table up to the checkpoint's step does not know what left after it, before the save.
            steps = int(other.session.run(other.table.steps))
            assert [sok.evicted_keys(other.table, steps + more, other.session)[1] for more in (0, 1)] == [False, True]


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

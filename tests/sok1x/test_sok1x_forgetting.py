"""Tables that forget in one process: rows in flight, what fails half-way, keys given out and remembered, files."""
import datetime
import threading
import time

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

import sok1x as sok
from sok1x.core.embedding_variable import EmbeddingVariable
from sok1x.graph_ops.bridge import growing
from sok1x.graph_ops.bridge.bridge import Request
from sok1x.graph_ops.bridge.errors import RESOURCE_EXHAUSTED, CallError
from sok1x.graph_ops.operations import embedding
from sok1x.graph_ops.stores import eviction
from sok1x.graph_ops.stores.forgetful_store import ForgetfulStore

DIM = 2


class Model:
    """A table with momentum's slot, whose step waits until it is let on."""

    def __init__(self, **options):
        self.table = EmbeddingVariable(rows=None, dim=DIM, initializer="zeros", **options)
        self.keys, self.gradient = tf.placeholder(tf.int64, [None]), tf.placeholder(tf.float32, [None])
        self.rows = embedding.lookup_dense(self.table.table_variables, self.keys, True)
        self.values = embedding.lookup_dense(self.table.table_variables, self.keys, False)
        self.gate = tf.placeholder(tf.int32, [])
        with tf.control_dependencies([self.rows]):
            opened = tf.py_func(self._wait, [self.gate], tf.float32)
        self.waiting, self.gates = threading.Semaphore(0), [threading.Event() for _ in range(4)]
        optimizer = tf.train.MomentumOptimizer(1.0, 0.5)
        self.step = optimizer.minimize(
            -tf.reduce_sum((self.rows + opened) * self.gradient[:, None]), var_list=[self.table])
        self.state = dict(self.table.forgetting, rows=self.table, index=self.table.index[0], count=self.table.index[1],
                          stamps=self.table.stamps, slot=optimizer.get_slot(self.table, "momentum"))
        # A step that waits keeps a thread of its own.
        self.session = tf.Session(config=tf.ConfigProto(inter_op_parallelism_threads=8, use_per_session_threads=True))
        self.session.run(tf.global_variables_initializer())

    def _wait(self, gate):
        if gate >= 0:
            self.waiting.release()
            assert self.gates[gate].wait(30)
        return np.float32(0)

    def train(self, keys, gradients=None, gate=-1):
        gradients = np.zeros(len(keys)) if gradients is None else gradients
        self.session.run(self.step, {self.keys: keys, self.gradient: gradients, self.gate: gate})

    def look_up(self, keys):
        self.session.run(self.rows.op, {self.keys: keys})

    def read(self, keys):
        return self.session.run(self.values, {self.keys: keys})[:, 0].tolist()

    def held(self):
        """The keys in the table."""
        index = self.session.run(self.table.index[0])
        return set(index[index[:, 1] >= 0, 0].tolist())


@pytest.fixture
def graph():
    sok.init()
    with tf.Graph().as_default() as graph, tf.device("/cpu:0"):
        yield graph


def test_rows_in_the_hands_of_a_step_in_flight_stay(graph):
    model = Model(max_capacity=8, evict_strategy="lru")
    model.look_up(range(8))
    steps = []
    for gate, keys in enumerate([[1, 2], [5]]):
        steps.append(threading.Thread(target=model.train, args=(keys, np.array(keys, np.float32) * 10, gate)))
        steps[-1].start()
        assert model.waiting.acquire(timeout=30)
    # All that lookups have asked for since the first of these steps began stays, whoever asked.
    model.look_up([20, 21, 22, 23, 24])
    assert model.held() == {1, 2, 5, 20, 21, 22, 23, 24}
    with pytest.raises(tf.errors.ResourceExhaustedError) as error:
        model.look_up([30])
    text = str(error.value)
    assert "8 of 8 rows (max_capacity) are in use and the batch has 1 new keys" in text
    assert "1 more rows must leave (evict_strategy 'lru'), and 0 may: 8 are pinned" in text
    assert "by steps in flight (3)" in text, text  # with the lookup itself
    model.gates[0].set()
    steps[0].join()
    assert model.read([1, 2, 5]) == [10, 20, 0]
    model.look_up([30, 31])  # what the first step has looked up may leave, and what the other has not
    assert model.held() == {5, 20, 21, 22, 23, 24, 30, 31}
    model.gates[1].set()
    steps[1].join()
    assert model.read([5, 1]) == [50, 0]
    model.look_up(range(100, 108))
    assert model.held() == set(range(100, 108))


def test_a_step_that_has_failed_pins_nothing(graph):
    model = Model(max_capacity=4, evict_strategy="lru")
    with tf.control_dependencies([model.rows]):
        fails = tf.Assert(False, ["as it should"])
    with pytest.raises(tf.errors.InvalidArgumentError):
        model.session.run(fails, {model.keys: [1, 2, 3, 4]})
    model.look_up([5, 6, 7, 8])
    assert model.held() == {5, 6, 7, 8}


def test_no_gradient_reaches_another_keys_row(graph, seed):
    """Threads whose steps overlap at capacity; a key's gradient is the key, so every row is a multiple of its key."""
    model = Model(max_capacity=24, evict_strategy="lru")
    model.session.run(model.session.graph.get_operation_by_name("EmbeddingVariable/Momentum/Assign"))
    plain = tf.train.GradientDescentOptimizer(1.0).minimize(
        -tf.reduce_sum(model.rows * model.gradient[:, None]), var_list=[model.table])
    refused, trained, end = [], [], time.monotonic() + 60

    def work(number):
        random = np.random.RandomState(seed % 1000 + number)
        for _ in range(40):
            keys, before = random.randint(1, 80, 4), len(trained)
            # While another step is in flight, for long on a busy machine, what has been looked up since it began stays.
            while len(trained) == before and time.monotonic() < end:
                try:
                    model.session.run(plain, {model.keys: keys, model.gradient: keys})
                    trained.append(1)
                except tf.errors.ResourceExhaustedError:
                    refused.append(1)
                time.sleep(0.001 * random.randint(3))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(trained) > 100, (len(trained), len(refused))
    keys = sorted(model.held())
    for key, value in zip(keys, model.read(keys)):
        assert value % key == 0, (key, value)


@pytest.mark.parametrize("strategy", ["lru", "lfu"])
def test_rows_that_are_free_are_given_out_without_python(graph, monkeypatch, strategy):
    """Python has rows leave, a sixteenth at a time; until they are given out C++ looks up and inserts."""
    model = Model(init_capacity=64, max_capacity=64, evict_strategy=strategy)
    model.train(range(64), np.ones(64))
    model.train(range(32, 64), np.ones(32))
    in_python, real = [], ForgetfulStore.insert
    monkeypatch.setattr(ForgetfulStore, "insert", lambda self, *given: in_python.append(1) or real(self, *given))
    for number in range(3):  # four leave each time: the first lookup needs one row, the others have three
        new = [100 + 4 * number + i for i in range(4)]
        for key in new:
            model.train([32, key, key], [0.0, key, key])
            assert len(in_python) == number + 1, (number, key)
        model.look_up([32] + new)  # no new key
        assert len(in_python) == number + 1
        assert model.read(new) == [2.0 * key for key in new]
    state = model.session.run(model.state)
    rows = dict(state["index"][state["index"][:, 1] >= 0].tolist())
    # What has been there before is gone from the slot, too.
    assert [state["slot"][rows[key], 0] for key in range(100, 112)] == [-2.0 * key for key in range(100, 112)]
    ticks = 2 + 3 * 5
    assert state["counters"].tolist() == [ticks, 0, 12, 0, 76, 0] and state["count"] == 64
    assert state["used"][rows[32]] == state["used"][rows[111]] == ticks and state["used"][rows[107]] == ticks - 5
    if strategy == "lfu":
        assert state["frequency"][[rows[key] for key in (32, 33, 111, 107)]].tolist() == [ticks, 2, 2, 2]
    assert (state["stamps"][[rows[key] for key in range(100, 112)]] == np.arange(3, 15)).all()


def test_a_slot_that_is_made_late_begins_anew_with_its_rows(graph):
    model = Model(init_capacity=32, max_capacity=32, evict_strategy="lru")
    model.train(range(32))
    late = tf.train.AdagradOptimizer(1.0, initial_accumulator_value=0.5)
    step = late.minimize(tf.reduce_sum(model.rows), var_list=[model.table])
    accumulator = late.get_slot(model.table, "accumulator")
    session = model.session
    session.run(accumulator.initializer)
    session.run(step, {model.keys: range(32)})
    for keys in ([50], [51]):  # two leave: the second is C++'s
        session.run(step, {model.keys: keys})
    index, values = session.run([model.table.index[0], accumulator])
    rows = dict(index[index[:, 1] >= 0].tolist())
    assert [values[rows[key], 0] for key in (50, 51, 31)] == [1.5, 1.5, 1.5]
    assert session.run(model.table.forgetting["counters"])[1] == 0


class Fault(Exception):
    """What a test makes fail."""


def test_a_fault_before_rows_leave_changes_nothing(graph, monkeypatch):
    model = Model(max_capacity=12, init_capacity=12, evict_strategy="lfu")
    model.train(range(12), np.arange(12) + 1.0)
    model.train(range(6), np.arange(6) + 1.0)
    before = model.session.run(model.state)

    def check():
        after = model.session.run(model.state)
        assert after["counters"][0] == before["counters"][0] + tried  # lookups are counted, rows may be newer
        for name in set(before) - {"counters", "used", "frequency"}:
            assert after[name].tobytes() == before[name].tobytes(), name
        assert after["counters"][1:].tolist() == before["counters"][1:].tolist()

    tried, failed_at = 0, []
    real_memory = Request.memory

    def memory(request, nbytes):  # the n-th piece of memory of a request cannot be had
        request.asked = getattr(request, "asked", 0) + 1
        if request.function == "operations.dense_lookup.forward" and request.asked == fails_at:
            failed_at.append(fails_at)
            raise CallError(RESOURCE_EXHAUSTED, "no memory, says the test")
        return real_memory(request, nbytes)

    for fails_at in range(1, 30):
        with monkeypatch.context() as patched:
            patched.setattr(Request, "memory", memory)
            keys = [0, 50, 51]
            if fails_at > len(failed_at) + 1:
                break
            try:
                model.look_up(keys)
            except tf.errors.ResourceExhaustedError as error:
                assert "says the test" in str(error)
            else:
                break
        # A fault before the table was opened has not counted the lookup.
        tried = int(model.session.run(model.state["counters"])[0] - before["counters"][0])
        check()
    assert len(failed_at) > 5 and model.held() >= {50, 51, 0}
    model.train(range(12))
    before, tried = model.session.run(model.state), 0
    for place, name in ((eviction, "choose"), (growing.Reached, "own"), (eviction.lowest_scores, "threshold"),
                        (eviction.pins, "of")):
        def fault(*_):
            raise Fault("the test's")
        with monkeypatch.context() as patched:
            patched.setattr(place, name, fault)
            with pytest.raises(tf.errors.InternalError, match="the test's"):
                model.look_up([60, 61, 62])
        tried += 1
        check()
    model.look_up([60, 61, 62])
    assert model.held() >= {60, 61, 62}


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


def by_key(state):
    """{key: (row's values, slot, last tick, frequency)}."""
    return {key: (state["rows"][row].tolist(), state["slot"][row].tolist(), state["used"][row],
                  state["frequency"][row] if "frequency" in state else None)
            for key, row in state["index"][state["index"][:, 1] >= 0].tolist()}


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

"""Tables that forget in one process: rows in flight, what fails half-way, rows that are free and given out again."""
import threading
import time

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from forgetful_model import Model

from sok1x.graph_ops.bridge import growing
from sok1x.graph_ops.bridge.bridge import Request
from sok1x.graph_ops.bridge.errors import RESOURCE_EXHAUSTED, CallError
from sok1x.graph_ops.operations import evictions
from sok1x.graph_ops.stores import eviction
from sok1x.graph_ops.stores.forgetful_store import ForgetfulStore


def test_rows_in_the_hands_of_a_step_in_flight_stay(graph):
    model = Model(max_capacity=8, evict_strategy="lru")
    model.look_up(range(8))
    steps = []
    for gate, keys in enumerate([[1, 2], [5]]):
        steps.append(threading.Thread(target=model.train, args=(keys, np.array(keys, np.float32) * 10, gate)))
        steps[-1].start()
        assert model.waiting.acquire(timeout=120)
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


def test_a_full_table_of_young_rows_says_what_makes_rows_old(graph):
    """Smaller batches do not."""
    model = Model(max_capacity=8, evict_strategy="ttl", time_to_live=25)
    model.look_up(range(8))
    with pytest.raises(tf.errors.ResourceExhaustedError) as error:
        model.look_up([30])
    assert "and 8 have changed in the last 25 steps (time_to_live)" in str(error.value)
    assert "set a shorter time_to_live, take an optimizer that moves the rows of the batch alone" in str(error.value)
    with pytest.raises(tf.errors.ResourceExhaustedError) as error:
        model.look_up(range(9))  # all are the batch's own
    assert "time_to_live," not in str(error.value)
    assert model.held() == set(range(8))


def test_rows_that_leave_when_a_table_is_saved_are_in_no_steps_hands(graph):
    """Saved in a thread beside the training, which has looked rows up and will move them."""
    model = Model(max_capacity=8, evict_strategy="lru")
    leave = evictions.evict(model.table.table_variables, tf.range(8, dtype=tf.int64))
    model.look_up([7])
    step = threading.Thread(target=model.train, args=([1, 2], np.array([10, 20], np.float32), 0))
    step.start()
    assert model.waiting.acquire(timeout=120)
    assert model.session.run(leave) == 1
    model.look_up([30, 31])
    model.gates[0].set()
    step.join()
    assert model.held() == {1, 2, 30, 31} and model.read([1, 2, 30, 31]) == [10, 20, 0, 0]
    assert model.session.run(leave) == 4 and model.held() == set()


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

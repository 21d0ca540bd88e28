"""Tables with a cache forget what they would without one: the same keys, at the same lookups, in the same order."""
import threading

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from forgetful_model import Model
from hybrid_table import Both, Small

import sok1x as sok
from sok1x.graph_ops.bridge.bridge import Request
from sok1x.graph_ops.stores import cache, host_growth, host_tier, lean_rows, staged_crossing


@pytest.fixture(autouse=True)
def joined():
    sok.init()


def refused_or_not(both, what, **feeds):
    """Done on both sides, or refused by both for their rows in use."""
    said = []
    for side in both.sides:
        try:
            made = side.session.run(getattr(side, what), {getattr(side, name): value for name, value in feeds.items()})
            said.append([] if made is None else [part.tolist() for part in (made if what == "read" else [made])])
        except tf.errors.ResourceExhaustedError as error:
            assert "is full on rank 0" in error.message
            said.append(error.message.split("\n")[0])
    assert said[0] == said[1]
    return isinstance(said[0], str)


def compare(both):
    """Rows by number, those that have left in order, and scores."""
    cached, plain = [side.session.run(dict(side.table.forgetting, index=side.table.index[0])) for side in both.sides]
    every, index = [{key: row for key, row in found.tolist() if row >= 0}
                    for found in (cached["every"], plain["index"])]
    assert every == index
    assert {key for key, row in cached["index"].tolist() if row >= 0} <= set(every)
    cached["counters"][1] = cached["tiers"][cache.FREE]
    assert cached["counters"].tolist() == plain["counters"].tolist()
    assert cached["evicted"].tolist() == plain["evicted"].tolist()
    for key, row in cached["index"][cached["index"][:, 1] >= 0].tolist():
        assert cached["used"][row] == plain["used"][index[key]] and cached["home"][row] % 2 ** 32 == index[key]
        assert "frequency" not in plain or "frequency" not in cached or (
            cached["frequency"][row] == plain["frequency"][index[key]])


WAYS = [
    (dict(evict_strategy="lru", cache_rows=39), ""),
    (dict(evict_strategy="lru", cache_strategy="lfu", cache_rows=34, admit_after=2), "gathered"),
    (dict(evict_strategy="lfu", cache_strategy="lru", cache_rows=30), "lean"),
    (dict(evict_strategy="lfu", cache_rows=20), "lean gathered"),
    (dict(evict_strategy="ttl", time_to_live=4, cache_rows=36), ""),
    (dict(evict_strategy="ttl", time_to_live=2, cache_rows=20), "lean copies gathered")]


@pytest.mark.parametrize("options, how", WAYS, ids=[str(number) for number in range(len(WAYS))])
def test_the_same_rows_leave(options, how, seed, monkeypatch):
    for word, where, name, value in (
            ("copies", host_tier.HostColumn, "reachable", False), ("lean", lean_rows, "RUNS", 0),
            ("gathered", staged_crossing, "is_staged", lambda _: True),
            ("gathered", staged_crossing, "PIECE_BYTES", 60), ("gathered", staged_crossing, "STAGING_BYTES", 100)):
        if word in how:
            monkeypatch.setattr(where, name, value)
    both = Both(lambda: tf.train.MomentumOptimizer(0.25, 0.5), max_capacity=40, remember_evicted=50, **options)
    for side in both.sides:
        with side.graph.as_default():
            side.read = sok.sparse_read_and_evict(side.table, side.keys)
    random, refused, lean = np.random.RandomState(seed), 0, 0
    most = 8 if options["evict_strategy"] == "ttl" else 16
    for step in range(80):
        keys = (random.rand(random.randint(1, most)) ** 1.5 * 120).astype(np.int64)
        weights = random.randint(-3, 4, (len(keys), 2)).astype(np.float32)
        kind = random.choice(["weighted", "rows", "read", "assigned"], p=[.6, .2, .1, .1])
        if kind == "assigned":
            keys = np.unique(keys)
        feeds = {"weighted": dict(weights=weights), "assigned": dict(values=weights[:len(keys)])}.get(kind, {})
        refused += refused_or_not(both, kind, keys=keys, **feeds)
        compare(both)
        lean += both.number(cache.LEAN)
        if step % 16 == 15:
            both.compare()
    assert both.sides[0].session.run(both.sides[0].table.forgetting["counters"])[2] > 25 and refused < 40
    assert lean or "lean" not in how or most < 16  # where batches are small it may be that no key comes back
    every = sorted(both.sides[0].export())  # by their slots, too
    for first in range(0, len(every), 8):
        keys = every[first:first + 8]
        both.run("weighted", keys=keys, weights=np.ones((len(keys), 2)))
    both.compare()


def test_rows_in_the_hands_of_a_step_in_flight_stay(graph):
    model = Model(max_capacity=10, evict_strategy="lru", cache_rows=9)
    model.look_up(range(5))
    model.look_up(range(5, 10))
    step = threading.Thread(target=model.train, args=([1, 2], np.array([10, 20], np.float32), 0))
    step.start()
    assert model.waiting.acquire(timeout=120)
    model.look_up(range(20, 27))
    every = model.session.run(model.table.forgetting["every"])
    assert set(every[every[:, 1] >= 0, 0]) == {1, 2, 9, *range(20, 27)}
    with pytest.raises(tf.errors.ResourceExhaustedError) as error:
        model.look_up([30, 31])
    assert "10 of 10 rows (max_capacity) are in use and the batch has 2 new keys" in error.value.message
    assert "2 more rows must leave (evict_strategy 'lru'), and 1 may: 9 are pinned" in error.value.message
    model.gates[0].set()
    step.join()
    model.look_up([30, 31])
    assert model.read([1, 2, 9, 26]) == [0, 20, 0, 0]


def test_no_memory_is_asked_for_once_keys_have_left(monkeypatch):
    """For want of it rows would be neither theirs nor free."""
    asked, leave, memory = [], host_growth.leave, Request.temporary

    def leaves(*given):
        with monkeypatch.context() as patched:
            patched.setattr(Request, "temporary", lambda *how: asked.append(how[1:]) or memory(*how))
            return leave(*given)

    monkeypatch.setattr(host_tier.HostColumn, "reachable", property(lambda self: not self.rows))
    monkeypatch.setattr(host_growth, "leave", leaves)
    small = Small(20, cache_rows=4, max_capacity=12)
    with small.graph.as_default():
        read = sok.sparse_read_and_evict(small.table, small.keys)
    assert small.session.run(read, {small.keys: [30, 31]})[1].size and small.number(cache.FREE) == 0
    assert len(small.export()) == 12 and not asked, asked

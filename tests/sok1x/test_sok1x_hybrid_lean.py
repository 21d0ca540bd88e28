"""Rows that come into a cache without their optimizers' slots: the same values, and less that crosses the bus."""
import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from hybrid_table import Both
from stock_lazy_adam import LazyAdamOptimizer

import sok1x as sok
from sok1x.graph_ops.stores import cache, host_tier, lean_rows


@pytest.fixture(autouse=True)
def joined():
    sok.init()


def follow(both, seed, steps=45):
    """Steps, lookups alone, and assignments, in any order."""
    random = np.random.RandomState(seed)
    seen = 0
    for step in range(steps):
        keys = (random.rand(random.randint(1, 16)) ** 2 * 90).astype(np.int64)
        weights = random.randint(-3, 4, (len(keys), 2)).astype(np.float32)
        kind = random.choice(["weighted", "rows", "rows", "rows", "assigned"], p=[.3, .2, .2, .2, .1])
        if kind == "weighted":
            both.run(kind, keys=keys, weights=weights)
        elif kind == "rows":
            both.run(kind, keys=keys)
        else:
            both.run(kind, keys=np.unique(keys), values=weights[:len(np.unique(keys))])
        seen = max(seen, both.number(cache.LEAN))
        if step % 9 == 8:
            both.compare()
    both.compare()
    return seen


MAKE = {
    "momentum": lambda: tf.train.MomentumOptimizer(0.25, 0.5), "lazy adam": lambda: LazyAdamOptimizer(0.1),
    "ours": lambda: sok.tf.keras.optimizers.LazyAdamOptimizer(0.1), "every row": lambda: sok.optimizers.Adam(0.1),
    "wrapped": lambda: sok.OptimizerWrapper(tf.train.AdagradOptimizer(0.5)),
    "no slots": lambda: tf.train.GradientDescentOptimizer(0.5)}


@pytest.mark.parametrize("make, reached", [(make, True) for make in MAKE] + [("momentum", False), ("ours", False)])
def test_lean_rows_train_as_others(make, reached, seed, monkeypatch):
    monkeypatch.setattr(lean_rows, "RUNS", 0)  # lookups always guess that no gradient follows
    if not reached:
        monkeypatch.setattr(host_tier.HostColumn, "reachable", False)
    assert follow(Both(MAKE[make]), seed) > 0


def test_a_guess_goes_by_what_has_followed_lookups(seed):
    both = Both(MAKE["momentum"])
    keys = np.arange(60)

    def look_up(times):
        for first in range(times):
            both.run("rows", keys=keys[first % 6 * 10:][:10])

    def train(*some):
        both.run("weighted", keys=some, weights=np.ones((len(some), 2)))

    for first in range(0, 60, 10):
        train(*keys[first:first + 10])
    assert both.number(cache.LEAN) == 0
    look_up(lean_rows.RUNS)
    assert both.number(cache.LEAN) == 0
    pushed = both.number(cache.PUSHED)
    look_up(6)
    assert both.number(cache.LEAN) > 0
    look_up(12)
    assert both.number(cache.PUSHED) - pushed <= 24  # what the cache had of others: then nothing is written
    pushed = both.number(cache.PUSHED)
    look_up(12)
    assert both.number(cache.PUSHED) == pushed
    train(*keys[:3])  # and now gradients follow again
    for first in range(0, 60, 10):
        train(*keys[first:first + 10])
    assert both.number(cache.LEAN) == 0
    both.compare()


def test_lean_rows_are_saved_dumped_and_restored_whole(seed, tmp_path, monkeypatch):
    monkeypatch.setattr(lean_rows, "RUNS", 0)
    both = Both(MAKE["momentum"])
    assert follow(both, seed) > 0
    for number, side in enumerate(both.sides):
        both.run("rows", keys=np.arange(12))
        with side.graph.as_default(), side.session.as_default():
            sok.dump(str(tmp_path / "dumped{}".format(number)), side.table, side.optimizer)
            sok.Saver().dump_to_file(side.table, str(tmp_path / "saved{}".format(number)))
    new = Both(MAKE["momentum"])
    for number, side in enumerate(new.sides):
        with side.graph.as_default(), side.session.as_default():
            sok.load(str(tmp_path / "dumped{}".format(number)), side.table, side.optimizer)
    assert new.sides[0].export() == both.sides[0].export()
    follow(new, seed + 1)  # by the slots, too
    for number, side in enumerate(new.sides):
        with side.graph.as_default(), side.session.as_default():
            sok.Saver().restore_from_file(side.table, str(tmp_path / "saved{}".format(number)))
    follow(new, seed + 2)


def test_slots_that_come_late_come_for_lean_rows_too(seed, monkeypatch):
    monkeypatch.setattr(lean_rows, "RUNS", 0)
    both = Both(MAKE["momentum"])
    follow(both, seed)
    both.run("rows", keys=np.arange(16))
    assert both.number(cache.LEAN) > 0
    for side in both.sides:
        with side.graph.as_default():
            late = tf.train.AdagradOptimizer(1.0, 0.25)
            side.late = late.apply_gradients([(tf.gradients(tf.reduce_sum(side.rows), side.table)[0], side.table)])
            side.session.run(late.get_slot(side.table, "accumulator").initializer)
    random = np.random.RandomState(seed)
    for _ in range(20):
        both.run("late", keys=random.permutation(90)[:12])
        both.run("rows", keys=random.permutation(90)[:12])
    follow(both, seed + 1)


@pytest.mark.parametrize("late", [False, True])
def test_a_gradient_made_by_hand_changes_lean_rows_for_good(late, monkeypatch):
    """One of rows that the run has looked up, by an optimizer of TensorFlow's: it writes into the cache itself."""
    monkeypatch.setattr(lean_rows, "RUNS", 0)
    both = Both(MAKE["momentum"])
    for first in range(0, 60, 12):
        both.run("weighted", keys=np.arange(first, first + 12), weights=np.ones((12, 2)))
    for side in both.sides:
        with side.graph.as_default():
            numbers, optimizer = tf.placeholder(tf.int64, [None]), side.optimizer
            if late:
                optimizer = tf.train.AdagradOptimizer(1.0, 0.25)
            with tf.control_dependencies([side.rows]):
                rows = tf.py_func(lambda given: given, [numbers], tf.int64)
            rows.set_shape([2])
            by_hand = optimizer.apply_gradients([(tf.IndexedSlices(tf.ones([2, 2]), rows, [24, 2]), side.table)])
            if late:
                side.session.run(optimizer.get_slot(side.table, "accumulator").initializer)
        side.session.run(side.rows, {side.keys: [3, 5, 7]})  # of which those of the cache come lean
        index = side.session.run(side.table.index[0])
        found = [int(index[(index[:, 0] == key) & (index[:, 1] >= 0), 1][0]) for key in (3, 7)]
        assert side is both.sides[1] or side.number(cache.LEAN) > 0
        for _ in range(2):
            side.session.run(by_hand, {side.keys: [3, 5, 7], numbers: found})
    for first in range(12, 60, 12):  # others need the room
        both.run("rows", keys=np.arange(first, first + 12))
    both.compare()
    both.run("weighted", keys=[3, 4, 5, 7], weights=np.ones((4, 2)))
    both.compare()

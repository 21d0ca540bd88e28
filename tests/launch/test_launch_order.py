"""Collective order under random interleavings: thousands of ops on many simulated ranks, against plain pairing."""
import collections
import random

import numpy as np
import pytest
from launch_simulation import Job, ready

from sok1x.launch import pauses
from sok1x.launch.errors import CANCELLED, RESOURCE_EXHAUSTED, LaunchError


def drive(job, chance, act, done):
    """Lets ranks act, messages arrive and ranks poll in random order, until `done()`."""
    for _ in range(2000000):
        kind = chance.random()
        busy = job.wires.busy()
        if kind < 0.4 and busy:
            job.wires.deliver(chance.choice(busy))
        elif kind < 0.7:
            act(chance.randrange(job.size))
        else:
            rank = chance.randrange(job.size)
            for decision in job.poll(rank):
                job.on_decision(rank, decision)
        job.clock.now += 1e-4
        if not busy and done():
            return
    raise AssertionError("no end")


@pytest.mark.parametrize("together", [1, 9])
@pytest.mark.parametrize("size", [1, 2, 3, 8])
def test_random_interleavings(size, together, seed):
    """Ranks announce the same ops, each in an order and in bundles of its own, some again before the first is decided,
    some with errors. All run them in one order, with the k-th announcement of every rank paired."""
    chance = random.Random(seed)
    job = Job(size)
    n_ops, times = 7, 3000 // (7 * size)
    todo = []
    for _ in range(size):
        order = [op for op in range(n_ops) for _ in range(times)]
        chance.shuffle(order)
        todo.append(order)
    fails = {(op, k, rank) for op in range(n_ops) for k in range(times) for rank in range(size)
             if chance.random() < 0.02}
    announced = [collections.Counter() for _ in range(size)]
    tickets = [{} for _ in range(size)]

    def act(rank):
        count = min(chance.randint(1, together), len(todo[rank]))
        mine, readies = [], []
        for _ in range(count):
            op = todo[rank].pop()
            k = announced[rank][op]
            announced[rank][op] += 1
            error = LaunchError(RESOURCE_EXHAUSTED, "full {}".format(rank), rank) if (op, k, rank) in fails else None
            mine.append((op, k))
            readies.append(ready(op, (rank, k, op), error))
        tickets[rank].update(zip(job.ranks[rank].announce_all(readies), mine))

    job.on_decision = lambda rank, decision: None
    drive(job, chance, act, lambda: not any(todo) and all(len(h) == n_ops * times for h in job.heard))

    order = [decision.op for decision in job.heard[0]]
    seen = collections.Counter()
    for place, op in enumerate(order):
        k = seen[op]
        seen[op] += 1
        failing = [rank for rank in range(size) if (op.index, k, rank) in fails]
        for rank in range(size):
            decision = job.heard[rank][place]
            assert decision.op == op and decision.name == "op{}".format(op.index)
            assert decision.number == job.heard[0][place].number
            assert tickets[rank].pop(decision.ticket) == (op.index, k)
            if failing:
                assert decision.headers is None
                assert decision.error.code == RESOURCE_EXHAUSTED
                assert (decision.error.rank, decision.error.message) == (failing[0], "full {}".format(failing[0]))
            else:
                assert decision.error is None
                np.testing.assert_array_equal(decision.headers, [[r, k, op.index] for r in range(size)])
    assert set(seen.values()) == {times}
    assert all(job.batches(rank) == job.batches(0) for rank in range(size))
    assert not any(job.warnings) and not any(job.job_errors)
    assert [c.wait_microseconds() for c in job.ranks] == [None if size == 1 else 1000] * size


@pytest.mark.parametrize("together", [1, 4])
@pytest.mark.parametrize("size", [2, 4])
def test_a_failed_step_does_not_meet_the_next_one(size, together, seed):
    """In random steps one op fails on one rank. Each rank then abandons that step wherever it is, and goes on with
    the next: no announcement of the failed step is ever paired with one of another step."""
    chance = random.Random(seed)
    job = Job(size)
    n_ops, steps = 5, 120
    failing = {step: (chance.randrange(n_ops), chance.randrange(size)) for step in range(1, steps + 1)
               if chance.random() < 0.4}
    # Each rank numbers its session runs in its own way, as TensorFlow does.
    own = [{step: 1000 * rank + 7 * step + 1 for step in range(1, steps + 1)} for rank in range(size)]

    class Rank:
        def __init__(self):
            self.step, self.todo, self.open, self.failed = 0, [], {}, False

    ranks = [Rank() for _ in range(size)]

    def act(rank):
        me = ranks[rank]
        if me.failed:
            me.todo = []
        if not me.todo and not me.open and me.step < steps:
            me.step, me.failed = me.step + 1, False
            me.todo = chance.sample(range(n_ops), n_ops)
        readies = []
        for _ in range(min(chance.randint(1, together), len(me.todo))):
            op = me.todo.pop()
            error = None
            if failing.get(me.step) == (op, rank):
                error = LaunchError(RESOURCE_EXHAUSTED, "step {}".format(me.step), rank)
            readies.append(ready(op, (me.step,), error, step=own[rank][me.step]))
        me.open.update(dict.fromkeys(job.ranks[rank].announce_all(readies), me.step))

    def on_decision(rank, decision):
        me = ranks[rank]
        step = me.open.pop(decision.ticket)
        if decision.error is None:
            assert decision.headers.ravel().tolist() == [step] * size, "seed {}".format(seed)
        else:
            me.failed = True
            if decision.error.code != CANCELLED:
                assert decision.error.message == "step {}".format(step)

    job.on_decision = on_decision
    drive(job, chance, act, lambda: all(r.step == steps and not r.todo and not r.open for r in ranks))
    refused = {d.error.message for d in job.heard[0] if d.error is not None and d.error.code != CANCELLED}
    assert refused == {"step {}".format(step) for step in failing}
    assert all(job.batches(rank) == job.batches(0) for rank in range(size))
    assert not any(job.job_errors)


def test_an_op_that_only_some_ranks_reached_holds_nobody_up():
    job = Job(3)
    job.ranks[0].announce(ready(1))
    job.ranks[2].announce(ready(1))
    for rank in range(3):
        job.ranks[rank].announce(ready(2))
    job.settle()
    assert [[d.op.index for d in heard] for heard in job.heard] == [[2]] * 3


def test_one_op_announced_twice_before_the_first_is_decided():
    job = Job(2)
    for k in (1, 2):
        job.ranks[1].announce(ready(0, (k,)))
    job.settle()
    for k in (10, 20):
        job.ranks[0].announce(ready(0, (k,)))
    job.settle()
    for heard in job.heard:
        assert [d.headers.ravel().tolist() for d in heard] == [[10, 1], [20, 2]]


def test_withdrawn_in_time_or_too_late():
    job = Job(2)
    ticket = job.ranks[1].announce(ready(0, (1,), step=3))
    job.ranks[1].withdraw(ticket)
    job.settle()
    (decision,) = job.heard[1]
    assert decision.ticket == ticket and decision.error.code == CANCELLED and not job.heard[0]
    # The next announcement is paired, not the withdrawn one.
    job.ranks[0].announce(ready(0, (10,)))
    late = job.ranks[1].announce(ready(0, (2,)))
    job.wires.deliver_all()
    job.poll(0)
    job.ranks[1].withdraw(late)
    job.settle()
    assert job.heard[1][-1].headers.ravel().tolist() == [10, 2] and len(job.heard[1]) == 2
    assert job.heard[0][-1].headers.ravel().tolist() == [10, 2]


def test_headers_of_other_lengths_fail_the_op_and_not_the_job():
    job = Job(2)
    job.ranks[0].announce(ready(0, (1, 2)))
    job.ranks[1].announce(ready(0, (1,)))
    job.settle()
    for heard in job.heard:
        assert "headers of [2, 1] numbers" in heard[0].error.message and "op0" in heard[0].error.message
    for rank in range(2):
        job.ranks[rank].announce(ready(0, ()))
    job.settle()
    assert all(heard[1].headers.shape == (2, 0) for heard in job.heard)


def test_sleeps_are_short_while_an_answer_is_near_and_longer_afterwards():
    job = Job(2)
    assert job.ranks[1].wait_microseconds() == 1000 and not job.ranks[1].waits
    job.ranks[1].announce(ready(0))
    assert job.ranks[1].wait_microseconds() == 0 and job.ranks[1].waits
    waits = []
    for _ in range(50):
        job.clock.now += 5e-4
        waits.append(job.ranks[1].wait_microseconds())
    assert waits[0] == 1 and waits[-1] == 200 and waits == sorted(waits)
    alone = Job(1)
    assert alone.ranks[0].wait_microseconds() is None
    alone.ranks[0].announce(ready(0))
    assert alone.ranks[0].wait_microseconds() == 0 and not alone.ranks[0].waits
    job.ranks[1].withdraw(1)
    assert not job.ranks[1].waits and job.ranks[1].wait_microseconds() == 0, "that is still to be sent"
    job.ranks[0].announce(ready(0))
    job.settle()
    assert not job.ranks[0].waits and not job.ranks[1].waits


def test_a_rank_looks_longer_where_it_has_cpus_enough():
    for spin in (pauses.spin_for_requests, pauses.spin_for_words):
        found = [spin(cpus) for cpus in (0.5, 1, 3.9, 4, 64)]
        assert found == sorted(found) and found[3] == found[4] > found[2] == found[1]
    assert pauses.spin_for_words(0.5) == 0
    for cpus in (0.5, 4, 7.9, 8, 64):
        longer = pauses.spin_beside_gpu(cpus) - pauses.spin_for_requests(cpus)
        assert longer > 0 if cpus >= 8 else longer == 0

"""Which announcements belong together: runs that ranks number independently, gradients and lookups."""
import random

import pytest
from launch_simulation import Job, headers, ready

from sok1x.launch.errors import CANCELLED, DEADLINE_EXCEEDED, INVALID_ARGUMENT, RESOURCE_EXHAUSTED, LaunchError


def signed(op, numbers, kind, hashed=0):
    """An op in a session.run without gradients (kind 0), or that only looks at them (1), or steps by them (2)."""
    return ready(op, numbers, instance=(0, 0, 0, hashed | kind << 61))


@pytest.mark.parametrize("kinds, meet", [((0, 2), True), ((0, 1), True), ((2, 2), True), ((1, 2), False),
                                         ((2, 1), False)])
def test_gradients_that_are_looked_at_are_never_those_that_are_stepped_by(kinds, meet):
    """Kinds of session.run that differ meet in their order at last; but not these two, however long nothing moves."""
    job = Job(2, deadlock=10.0)
    for rank, kind in enumerate(kinds):
        job.ranks[rank].announce(signed(0, (rank,), kind, hashed=5 + rank))
    for _ in range(12):
        job.settle(0.3)
    assert headers(job) == ([[0, 1]] if meet else [])
    if meet:
        return
    for rank, kind in enumerate(kinds[::-1]):  # the other thread's
        job.ranks[rank].announce(signed(0, (2 + rank,), kind, hashed=6 - rank))
    job.settle()
    assert sorted(headers(job)) == [[0, 3], [2, 1]]


def test_a_step_that_one_rank_only_looks_at_ends_the_job():
    job = Job(2, deadlock=10.0)
    for rank in range(2):
        job.ranks[rank].announce(signed(0, (rank,), 1 + rank))
    for _ in range(40):
        job.settle(0.3)
    for coordinator in job.ranks:
        assert coordinator.job_error.code == DEADLINE_EXCEEDED
        assert "gradients by which an optimizer steps on some ranks are only fetched on others" in str(
            coordinator.job_error)


def test_gradients_meet_those_of_the_same_lookup():
    """Two lookups in flight; the ranks come to their gradients in different orders."""
    job = Job(2)
    for value in (1, 2):
        for rank in range(2):
            job.ranks[rank].announce(ready(0, (value,)))
    job.settle()
    first, second = (d.number for d in job.heard[0])
    assert first != second and [d.number for d in job.heard[1]] == [first, second]
    for rank, order in ((0, (first, second)), (1, (second, first))):
        for tie in order:
            job.ranks[rank].announce(ready(1, (tie,), instance=(tie,)))
    job.settle()
    assert sorted(headers(job)[2:]) == sorted([[first] * 2, [second] * 2]) == sorted(headers(job, 1)[2:])


def test_iterations_and_kinds_of_runs_meet_their_like():
    job = Job(2)
    instances = [(0, 0, 0), (0, 0, 1), (0, 5, 1), (0, 0, 1, 77)]
    for rank in range(2):
        for i, instance in list(enumerate(instances))[::1 - 2 * rank]:
            job.ranks[rank].announce(ready(0, (i,), instance=instance))
    job.settle()
    assert sorted(headers(job)) == [[i, i] for i in range(4)]


def test_ranks_that_ask_for_different_things_still_meet():
    """Rank 0 runs [train, metric] at once, rank 1 one after the other: nothing moves, so the same ops are paired, and
    the second time at once."""
    job = Job(2, deadlock=10.0)
    for step in range(2):
        job.ranks[0].announce(ready(0, (0,), instance=(0, 0, 0, 7)))
        job.ranks[1].announce(ready(0, (1,), instance=(0, 0, 0, 8)))
        for _ in range(6 * (step == 0)):
            job.settle(0.3)
        job.settle()
        assert headers(job) == headers(job, 1) == [[0, 1]] * (step + 1)
    assert [coordinator.job_error for coordinator in job.ranks] == [None, None]


def run_in(job, rank, kind, ops, number):
    """A session.run of a kind with these ops."""
    for op in ops:
        job.ranks[rank].announce(ready(op, (number,), instance=(0, 0, 0, kind)))


@pytest.mark.parametrize("size, first", [(2, 0), (2, 1), (3, 0), (3, 1), (3, 2)])
def test_steps_after_one_that_some_ranks_have_run_in_parts_soon_meet_at_once(size, first):
    """Once rank 0 runs [train, metric] where the others run them one after the other; rank `first` comes first."""
    job = Job(size, deadlock=10.0)
    order = [first] + [rank for rank in range(size) if rank != first]
    train, metric, both = (11, (0, 1)), (12, (2,)), (13, (0, 1, 2))
    met = 0
    for number, runs, seconds in [(0, [train], 0), (1, None, 3), (2, [train], 3), (3, [train], 0), (4, [train], 0),
                                  (5, None, 3), (6, None, 0), (7, [train], 0), (8, [metric], 3), (9, [metric], 0),
                                  (10, [train], 0), (11, None, 0), (12, [both], 3), (13, [both], 0), (14, [train], 0)]:
        for turn in range(len(runs or (train, metric))):
            for rank in order:
                ours = runs or ([train, metric] if rank else [both])
                if turn < len(ours):
                    run_in(job, rank, *ours[turn], number)
                job.settle(0.01)
            for _ in range(4 * seconds):
                job.settle(0.25)
        met += sum(len(ops) for _, ops in runs or [both])
        for rank in range(size):
            found = headers(job, rank)
            assert len(found) == met and found[-1] == [number] * size, (number, found)
    assert [coordinator.job_error for coordinator in job.ranks] == [None] * size


def test_ops_that_contradict_each_other_fail_at_once():
    """The ranks' plans are alike up to an op that both have run."""
    job = Job(2)
    for op in (0, 1):
        for rank in range(2):
            job.ranks[rank].announce(ready(op, plan="user\n" + ("item", "age")[rank], graphs=2))
        job.settle()
    assert len(job.heard[0]) == 2
    for coordinator in job.ranks:
        assert coordinator.job_error.code == INVALID_ARGUMENT
        for part in ("op number 1", "rank 0: item", "rank 1: age"):
            assert part in coordinator.job_error.message


def test_a_plan_that_has_grown_on_one_rank_only():
    """Rank 1 has built more, on another thread, and does not run it yet."""
    job = Job(2)
    for step in range(3):
        job.ranks[0].announce(ready(0, plan="a\nb"))
        job.ranks[1].announce(ready(0, plan="a\nb\nc\nd"))
        job.settle()
    assert len(job.heard[0]) == 3 and [coordinator.job_error for coordinator in job.ranks] == [None, None]
    for rank, plan in enumerate(("a\nb\nc\nd\ne", "a\nb\nc\nd")):
        job.ranks[rank].announce(ready(3, plan=plan))
    job.settle()
    assert len(job.heard[0]) == 4


def test_ranks_that_can_never_meet_fail_soon():
    job = Job(3, deadlock=10.0)
    job.ranks[0].announce(ready(1, name="train/user"))
    job.ranks[1].announce(ready(1, name="train/user"))
    job.ranks[2].announce(ready(2, name="eval/user"))
    for _ in range(39):
        job.settle(0.25)
    assert [coordinator.job_error for coordinator in job.ranks] == [None] * 3
    for _ in range(5):
        job.settle(0.25)
    for coordinator in job.ranks:
        error = coordinator.job_error
        assert error.code == DEADLINE_EXCEEDED
        for part in ("every rank waits", "SOK1X_DEADLOCK_SECONDS=10", "sok.EvenSteps",
                     "Rank 0 waits in op 'train/user', which rank 2 did not announce",
                     "Rank 2 waits in op 'eval/user', which ranks 0, 1 did not announce"):
            assert part in error.message, error.message
    assert not any(job.warnings)


def test_of_eager_ops_the_words_are_of_functions_not_of_sessions():
    """Such an op's index is made of its digest; a warning and the error say what to look at there."""
    job = Job(2, stall=2.0, deadlock=10.0)
    for rank, name in enumerate(("ads/lookup", "items/lookup")):
        one = ready(rank, name=name)
        job.ranks[rank].announce(one._replace(op=one.op._replace(index=one.op.digest >> 1)))
    for _ in range(46):
        job.settle(0.25)
    told = [job.ranks[0].job_error.message] + [text for texts in job.warnings for text in texts]
    assert len(told) > 1
    for text in told:
        assert "MonitoredTrainingSession" not in text and "in this graph" not in text and "order" in text, text
    assert "Every rank must call the same layers and functions" in told[0] and "dataset.repeat()" in told[0]


def test_a_slow_rank_has_no_graph_to_be_behind_in_eagerly():
    job = Job(2, stall=2.0)
    one = ready(0, name="ads/lookup")
    job.ranks[0].announce(one._replace(op=one.op._replace(index=one.op.digest >> 1)))
    for _ in range(10):
        job.settle(0.25)
    assert "Rank 1 has announced no op yet" in job.warnings[0][0] and "graph" not in job.warnings[0][0], job.warnings


def test_a_rank_that_is_slow_is_not_hit():
    job = Job(2, deadlock=10.0)
    job.ranks[0].announce(ready(0))
    for _ in range(200):
        job.settle(0.3)
    assert job.ranks[0].job_error is None, "rank 1 waits for nothing: it is about to come"
    # It waits for another op, and something on it still moves: a py_func that sleeps before the first op, say.
    job.still[1] = False
    job.ranks[1].announce(ready(1))
    for _ in range(200):
        job.settle(0.3)
    assert job.ranks[0].job_error is None
    job.still[1] = True
    for _ in range(30):
        job.settle(0.3)
    job.ranks[1].announce(ready(0))
    job.settle()
    assert len(job.heard[0]) == 1 and job.ranks[0].job_error is None
    # Every answer counts anew after something has moved.
    job.ranks[0].announce(ready(2))
    for _ in range(32):
        job.settle(0.3)
    assert job.ranks[0].job_error is None
    for _ in range(5):
        job.settle(0.3)
    assert job.ranks[0].job_error is not None


def test_a_network_that_is_cut_for_long_is_no_deadlock():
    """Rank 1 has said that nothing moves, then announces what rank 0 waits for, and that takes a minute to arrive."""
    job = Job(2, deadlock=10.0)
    job.ranks[0].announce(ready(0))
    job.ranks[1].announce(ready(1))
    for _ in range(8):
        job.settle(0.25)
    job.ranks[1].announce(ready(0))
    for _ in range(240):
        job.clock.now += 0.25
        job.poll(0)
        job.poll(1)
    assert job.ranks[0].job_error is None, job.ranks[0].job_error
    job.ranks[0].announce(ready(1))
    job.settle(0.25)
    assert headers(job) == headers(job, 1) and len(job.heard[0]) == 2 and job.ranks[0].job_error is None


@pytest.mark.parametrize("together", [1, 5])
@pytest.mark.parametrize("size", [2, 4])
def test_an_op_that_fails_on_all_ranks_takes_its_step_along(size, together, seed):
    """A shard is found full while the exchange is under way: all ranks fail there, at times of their own, and go on
    with their next step. What the failed step has announced besides never meets one of another step."""
    chance = random.Random(seed)
    job = Job(size)
    n_ops, steps = 5, 150
    failing = {step: chance.randrange(n_ops) for step in range(1, steps + 1) if chance.random() < 0.5}
    state = [{"step": 0, "todo": [], "open": {}, "failed": False} for _ in range(size)]
    for _ in range(2000000):
        kind, rank = chance.random(), chance.randrange(size)
        me = state[rank]
        if kind < 0.4 and job.wires.busy():
            job.wires.deliver(chance.choice(job.wires.busy()))
        elif kind < 0.7:
            if me["failed"]:
                # TensorFlow abandons the step: what is announced is withdrawn, a moment later.
                for ticket in list(me["open"]):
                    if chance.random() < 0.3:
                        job.ranks[rank].withdraw(ticket)
                me["todo"] = []
            if not me["todo"] and (me["failed"] or not me["open"]) and me["step"] < steps:
                me.update(step=me["step"] + 1, failed=False, todo=chance.sample(range(n_ops), n_ops))
            step, count = me["step"], min(chance.randint(1, together), len(me["todo"]))
            readies = [ready(me["todo"].pop(), (step,), step=7 * step + 1) for _ in range(count)]
            me["open"].update(dict.fromkeys(job.ranks[rank].announce_all(readies), step))
        else:
            for decision in job.poll(rank):
                step = me["open"].pop(decision.ticket)
                if decision.error is None:
                    assert set(decision.headers[:, 0].tolist()) == {step}, seed
                    if failing.get(step) == decision.op.index:
                        job.ranks[rank].undone(decision.number)
                        me["failed"] = me["failed"] or step == me["step"]
                else:
                    assert decision.error.code == CANCELLED
                    me["failed"] = me["failed"] or step == me["step"]
        if all(one["step"] == steps and not one["todo"] and not one["open"] for one in state):
            break
    assert all(one["step"] == steps and not one["open"] for one in state), seed
    assert all(job.batches(rank) == job.batches(0) for rank in range(size))
    undone = [d for d in job.heard[0] if d.error is None and failing.get(int(d.headers[0, 0])) == d.op.index]
    assert len(undone) == len(failing), seed
    assert not any(job.job_errors)


def test_an_error_of_one_rank_travels_with_its_announcement():
    job = Job(2)
    job.ranks[0].announce(ready(0, (1,), LaunchError(RESOURCE_EXHAUSTED, "full", 0)))
    job.ranks[1].announce(ready(0, (1,)))
    job.settle()
    for heard in job.heard:
        assert heard[0].error.message == "full" and heard[0].number == 0


def test_waiting_in_different_graphs_is_not_told_as_having_built_other_ones():
    """As where one rank saves and another trains, in graphs that all have built."""
    job = Job(2, deadlock=10.0)
    for rank, plan in enumerate(("save", "look up\ntrain")):
        job.ranks[rank].announce(ready(rank, (rank,), plan=plan, name=plan.split()[0], graphs=2))
    for _ in range(40):
        job.settle(0.3)
    assert ("(unless the ranks are at different places of graphs that they have built alike, the ranks built different "
            "graphs") in str(job.ranks[0].job_error)

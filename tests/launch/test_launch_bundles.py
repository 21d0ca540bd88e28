"""Bundles by hand: what they cost in messages, and what is decided together where ranks differ."""
import pytest
from launch_simulation import Job, ready

from sok1x.launch.errors import CANCELLED, INVALID_ARGUMENT, RESOURCE_EXHAUSTED, LaunchError

PLAN = "\n".join("op {}".format(op) for op in range(100))


def of(ops, step=0, errors=(), plan=PLAN, **more):
    """Readies for these ops; header number i of op i is (i, step) and as many numbers more as i % 3."""
    full = LaunchError(RESOURCE_EXHAUSTED, "full", 0)
    return [ready(op, (op, step) + (7,) * (op % 3), full if op in errors else None, plan, step, **more) for op in ops]


def warmed(size, ops=range(100)):
    """A job in which these ops have run before, so that rank 0 knows the sessions and plans; nothing heard yet."""
    job = Job(size)
    for rank in range(size):
        job.ranks[rank].announce_all(of(ops, step=1))
    job.settle()
    assert all(len(heard) == len(ops) for heard in job.heard)
    job.heard = [[] for _ in range(size)]
    job.wires.sent = 0
    return job


def ran(job, rank):
    """The ops that `rank` was told to run, a list a batch."""
    return [[op for _, op, _ in members] for _, members in job.batches(rank)]


@pytest.mark.parametrize("size", [2, 5])
@pytest.mark.parametrize("count", [1, 8, 100])
def test_a_step_costs_as_many_messages_whatever_its_number_of_ops(size, count):
    job = warmed(size)
    for step in range(2, 5):
        for rank in range(size):
            job.ranks[rank].announce_all(of(range(count), step))
        job.settle()
    assert job.wires.sent == 3 * 2 * (size - 1), "a message there and a word back for each rank"
    for rank in range(size):
        assert ran(job, rank) == [list(range(count))] * 3 and job.batches(rank) == job.batches(0)
        for decision in job.heard[rank]:
            op = decision.op.index
            assert decision.headers.shape == (size, 2 + op % 3)
            assert (decision.headers[:, 0] == op).all() and (decision.headers[:, 2:] == 7).all()


def test_rank_0_acts_on_no_word_that_has_not_gone():
    """What it runs may wait for a GPU, outside of MPI, which sends long words only while it is inside."""
    job = warmed(2)
    leader = job.ranks[0]
    for rank in (1, 0):
        job.ranks[rank].announce_all(of(range(100), step=2))
        job.wires.deliver_all()
    sent = job.wires.sent
    assert len(leader.poll()) == 100
    assert job.wires.sent == sent + 1 and not leader.transport.unflushed


def test_the_first_step_of_all_is_one_message_and_one_word_too():
    job = Job(2)
    for rank in range(2):
        job.ranks[rank].announce_all(of(range(50)))
    job.settle()
    assert job.wires.sent == 2 and ran(job, 0) == ran(job, 1) == [list(range(50))]


@pytest.mark.parametrize("parts", [
    (([0, 1, 2, 3, 4, 5],), ([0, 1, 2, 3], [4, 5])), (([0, 1, 2, 3],), ([0], [1], [2], [3])),
    (([0, 1, 2, 3],), ([3, 2, 1, 0],)), (([5, 6], [0, 1]), ([0, 5], [6, 1]))])
@pytest.mark.parametrize("first", [0, 1])
def test_ranks_that_bundle_differently_decide_in_one_word_what_is_there(parts, first):
    job = warmed(2)
    for rank in (first, 1 - first):
        for ops in parts[rank]:
            job.ranks[rank].announce_all(of(ops, 2))
    job.settle()
    everything = sorted(sum(parts[0], []))
    if first == 0:
        assert [sorted(ops) for ops in ran(job, 0)] == [everything]
    assert sorted(sum(ran(job, 0), [])) == everything and job.batches(0) == job.batches(1)


def test_what_is_ready_does_not_wait_for_the_rest_of_its_bundle():
    job = warmed(2)
    job.ranks[0].announce_all(of([0, 1, 2, 3], 2))
    job.ranks[1].announce_all(of([2, 9, 1], 2))
    job.settle()
    assert ran(job, 0) == ran(job, 1) == [[1, 2]]
    job.ranks[1].announce(of([3], 2)[0])
    job.settle()
    job.settle(0.1)  # the rest has waited for a while and is paired one by one
    job.ranks[1].announce_all(of([0, 4], 2))
    job.ranks[0].announce_all(of([4, 9], 2))
    job.settle()
    assert [sorted(ops) for ops in ran(job, 0)] == [[1, 2], [3], [9], [0, 4]] and job.batches(0) == job.batches(1)


def test_one_word_for_what_came_meanwhile_and_all_of_it_from_one_poll():
    """Rank 0 is busy while rank 1 announces twice, and rank 1 while rank 0's words come."""
    job = warmed(2)
    job.ranks[0].announce_all(of([0, 1, 2, 3], 2))
    job.ranks[1].announce_all(of([3, 2], 2))
    job.ranks[1].announce_all(of([1], 2))
    job.wires.deliver_all()
    job.poll(0)
    job.ranks[1].announce_all(of([0], 2))
    job.wires.deliver_all()
    job.poll(0)
    job.wires.deliver_all()
    assert len(job.poll(1)) == 4 and ran(job, 1) == ran(job, 0) == [[1, 2, 3], [0]]


def test_the_same_op_several_times_in_bundles():
    """In one bundle, and in two of one rank before the other rank has announced any."""
    job = warmed(2)
    for value in (1, 2):
        job.ranks[0].announce_all([ready(op, (value, 5), plan=PLAN) for op in (0, 0, 1)])
    job.settle()
    job.ranks[1].announce_all([ready(0, (value, 5), plan=PLAN) for value in (10, 11, 12, 13)])
    job.settle()
    job.ranks[1].announce_all([ready(1, (value, 5), plan=PLAN) for value in (10, 11)])
    job.settle()
    pairs = [(d.op.index, d.headers[:, 0].tolist()) for d in job.heard[0]]
    assert [pair for op, pair in pairs if op == 0] == [[1, 10], [1, 11], [2, 12], [2, 13]]
    assert [pair for op, pair in pairs if op == 1] == [[1, 10], [2, 11]]
    assert job.batches(0) == job.batches(1)


@pytest.mark.parametrize("failing", [0, 1])
def test_an_error_inside_a_bundle_fails_its_op_and_gives_up_the_rest_of_the_step(failing):
    job = warmed(2)
    other = 1 - failing
    job.ranks[other].announce_all(of(range(6), 2))
    job.ranks[failing].announce_all(of(range(6), 2, errors=[3]))
    job.settle()
    for heard in job.heard:
        answers = {d.op.index: d.error and (d.error.code, d.error.message) for d in heard}
        assert answers[3] == (RESOURCE_EXHAUSTED, "full") and len(answers) == len(heard) == 6
        for op in (0, 1, 2):
            assert answers[op] is None
        for op in (4, 5):
            assert answers[op] == (CANCELLED, "given up because op 'op3' failed in the same step")
    # What the failed step announces afterwards meets nothing; the next step is whole.
    job.ranks[0].announce_all(of([7, 8], 2))
    for rank in range(2):
        job.ranks[rank].announce_all(of(range(9), 3))
    job.settle()
    assert [d.error.code for d in job.heard[0] if d.op.index in (7, 8) and d.error] == [CANCELLED] * 2
    assert ran(job, 1)[-1] == list(range(9)) and ran(job, 0) == ran(job, 1)


def test_headers_of_other_lengths_in_a_bundle():
    job = warmed(2)
    job.ranks[0].announce_all(of(range(4)))
    job.ranks[1].announce_all(of(range(2)) + [ready(2, (1, 2, 3, 4, 5, 6), plan=PLAN)] + of([3]))
    job.settle()
    for heard in job.heard:
        (refused,) = [d for d in heard if d.error is not None]
        assert "headers of [4, 6] numbers" in refused.error.message and refused.op.index == 2
    assert ran(job, 0) == ran(job, 1) and sorted(sum(ran(job, 0), [])) == [0, 1, 3]


def test_an_op_of_a_batch_that_fails_on_all_ranks_takes_its_step_along():
    job = warmed(2)
    for rank in range(2):
        job.ranks[rank].announce_all(of(range(5), 2))
    job.settle()
    number = job.heard[0][3].number
    job.ranks[0].announce_all(of([6, 7], 2))
    for rank in range(2):
        job.ranks[rank].undone(number)
        job.ranks[rank].announce_all(of([6, 8], 3))
    job.settle()
    cancelled = [(d.op.index, d.error.message) for d in job.heard[0] if d.error is not None]
    assert cancelled == [(op, "given up because op 'op3' failed in the same step") for op in (6, 7)]
    assert ran(job, 0)[1:] == [[6, 8]] and job.batches(0) == job.batches(1)


def test_withdrawals_of_a_step_leave_in_one_message():
    job = warmed(2)
    tickets = job.ranks[1].announce_all(of(range(20), 2))
    job.settle()
    job.wires.sent = 0
    for ticket in tickets:
        job.ranks[1].withdraw(ticket)
    assert job.wires.sent == 0 and job.ranks[1].wait_microseconds() == 0
    job.poll(1)
    assert job.wires.sent == 1
    job.settle()
    assert [d.error.code for d in job.heard[1]] == [CANCELLED] * 20 and [d.ticket for d in job.heard[1]] == tickets


def test_ops_that_contradict_each_other_fail_at_once_in_bundles_too():
    """The ranks' plans are alike up to an op that both have run, and both told rank 0 of all their ops then."""
    job = Job(2)
    for ops in ([0, 1], [0, 1, 2]):
        for rank in range(2):
            plan = "user\nage\n" + ("item", "shop")[rank]
            job.ranks[rank].announce_all(of(ops, plan=plan, graphs=2))
        job.settle()
    assert [len(d) for d in map(list, ran(job, 0))] == [2, 2], "what came before is run"
    for coordinator in job.ranks:
        assert coordinator.job_error.code == INVALID_ARGUMENT
        for part in ("op number 2", "rank 0: item", "rank 1: shop"):
            assert part in coordinator.job_error.message


def test_several_sessions_and_kinds_of_runs_in_one_bundle():
    job = warmed(2)
    for rank in range(2):
        # The same three sessions, which rank 1 numbers otherwise; session 0 is known.
        numbers = [(0, 1, 2), (0, 5, 3)][rank]
        for _ in range(2):
            job.ranks[rank].announce_all([
                ready((numbers[k], op), (k, op), plan="{}\nb".format("abc"[k]), instance=(0, 0, 0, signature), graphs=3)
                for k in (1, 2) for signature in (7, 8) for op in (0, 1)] + of([5]))
            job.settle()
    assert [len(members) for _, members in job.batches(0)] == [9, 9] and job.batches(0) == job.batches(1)
    for decision in job.heard[0]:
        assert (decision.headers[0] == decision.headers[1]).all()


def test_ops_that_wait_in_bundles_are_warned_about_and_fail_with_a_rank_that_left():
    job = warmed(2)
    job.ranks[1].announce_all(of(range(3), 2, name="train"))
    job.settle()
    job.settle(61.0)
    job.settle(0.1)
    (text,) = job.warnings[1]
    assert text.count("op 'train' has waited 61 s for rank 0.") == 3
    job.ranks[0].leaving.begin()
    for _ in range(3):
        job.settle(1.0)
    assert "op 'train' waits for rank 0 that left" in job.ranks[1].job_error.message
    assert len(job.heard[1]) == 3


def test_one_rank_alone_runs_what_it_announces_together():
    job = Job(1)
    tickets = job.ranks[0].announce_all(of(range(3), errors=[1]))
    job.ranks[0].announce_all(of([5]))
    decisions = job.poll(0)
    assert [d.ticket for d in decisions[:3]] == tickets
    assert [d.batch for d in decisions] == [tickets[0], 0, tickets[0], tickets[0] + 3]
    assert decisions[2].headers.tolist() == [[2, 0, 7, 7]] and decisions[1].error.message == "full"
    assert job.ranks[0].announce_all([]) == []


def test_nothing_to_announce():
    job = warmed(2)
    assert job.ranks[1].announce_all([]) == [] == job.ranks[0].announce_all([])
    assert job.wires.sent == 0

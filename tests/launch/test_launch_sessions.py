"""Which sessions of the ranks belong together: ranks number them independently, and their graphs may be alike."""
import random

import pytest
from launch_simulation import Job, headers, ready


def test_a_session_and_a_graph_that_only_one_rank_has():
    """Rank 0 exports between training and evaluation, in a session and a graph of its own: sessions 0, 2 there are 0, 1
    elsewhere."""
    job = Job(3)
    for rank in range(3):
        job.ranks[rank].announce(ready((0, 0), (rank,), plan="user\nuser gradient"))
    job.settle()
    for rank in range(3):
        job.ranks[rank].announce(ready((2 if rank == 0 else 1, 0), (10 + rank,), plan="user", graphs=3 - (rank > 0)))
    job.settle()
    assert headers(job) == headers(job, 2) == [[0, 1, 2], [10, 11, 12]]
    assert [coordinator.job_error for coordinator in job.ranks] == [None] * 3


@pytest.mark.parametrize("size", [2, 4])
def test_sessions_that_could_be_taken_for_each_other_pair_in_the_order_of_their_beginning(size, seed):
    """Several sessions on one graph, used on threads of their own in any order on each rank; each rank numbers them
    with other sessions in between. The k-th that a rank has begun meets the k-th of the others, gradients included."""
    chance = random.Random(seed)
    job = Job(size)
    sessions, steps = 4, 20
    numbers = [sorted(chance.sample(range(20), sessions)) for _ in range(size)]
    todo = [[[(step, op) for step in range(steps) for op in (1, 0)][::-1] for _ in range(sessions)]
            for _ in range(size)]
    open_tickets = [{} for _ in range(size)]
    waiting = [[False] * sessions for _ in range(size)]
    for _ in range(400000):
        rank, k = chance.randrange(size), chance.randrange(sessions)
        if todo[rank][k] and not waiting[rank][k] and chance.random() < 0.5:
            step, op = todo[rank][k].pop()
            ticket = job.ranks[rank].announce(ready((numbers[rank][k], op), (k, step, op), rivals=numbers[rank][:k]))
            open_tickets[rank][ticket] = k, step, op
            waiting[rank][k] = True
        elif job.wires.busy() and chance.random() < 0.7:
            job.wires.deliver(chance.choice(job.wires.busy()))
        else:
            for decision in job.poll(rank):
                mine = open_tickets[rank].pop(decision.ticket)
                assert decision.headers.tolist() == [list(mine)] * size, seed
                waiting[rank][mine[0]] = False
        if not any(map(any, todo)) and not any(open_tickets):
            break
    assert not any(open_tickets) and not any(map(any, todo)), seed


@pytest.mark.parametrize("size", [2, 4])
def test_graphs_that_are_alike_pair_in_the_order_of_their_building(size):
    """Threads begin sessions on graphs that were built before, in any order on each rank."""
    job = Job(size)
    for turn in range(2):
        for rank in range(size):
            k = (turn + rank) % 2
            job.ranks[rank].announce(ready((turn, 0), (k,), alike=(3 + k, 1)))
        job.settle()
        assert len(headers(job)) == 2 * turn
    assert sorted(headers(job)) == sorted(headers(job, 1)) == [[0] * size, [1] * size]


def test_a_graph_that_one_rank_alone_has_is_no_obstacle_for_long():
    """Rank 0 has built another graph with the op before, and never runs it. Then they know of each other."""
    job = Job(2, deadlock=10.0)
    for k in range(3):
        job.ranks[0].announce(ready((k, 0), (k,), alike=(1 + k, 3 - k)))
        job.ranks[1].announce(ready((k, 0), (k,), alike=(k, 2 - k)))
        job.settle()
        if k == 0:
            assert not job.heard[0]
            for _ in range(6):
                job.settle(0.3)
        assert headers(job) == headers(job, 1) == [[n, n] for n in range(k + 1)]


def test_a_rival_that_one_rank_alone_has_is_no_obstacle_for_long():
    """Rank 0 has begun a session that could run the same op, and never runs it."""
    job = Job(2, deadlock=10.0)
    job.ranks[0].announce(ready((1, 0), (0,), rivals=[0]))
    job.ranks[1].announce(ready((0, 0), (1,)))
    job.settle()
    assert not job.heard[0]
    for _ in range(6):
        job.settle(0.3)
    assert headers(job) == headers(job, 1) == [[0, 1]]
    # From then on they know each other.
    job.ranks[0].announce(ready((1, 0), (2,), rivals=[0]))
    job.ranks[1].announce(ready((0, 0), (3,)))
    job.settle()
    assert headers(job)[1:] == [[2, 3]]


def test_a_rival_that_is_gone_is_none():
    job = Job(2)
    job.ranks[0].announce(ready((1, 0), (0,), rivals=[0]))
    job.ranks[1].announce(ready((0, 0), (1,)))
    job.settle()
    assert not job.heard[0]
    job.ranks[0].forget(0)
    job.settle()
    assert headers(job) == [[0, 1]]

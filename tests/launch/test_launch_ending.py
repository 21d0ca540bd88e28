"""A job that is told to end: all ranks hear one place, none has passed it, and nobody waits before that."""
import random

import pytest
from launch_simulation import Job, ready

from sok1x.launch.ending import NOWHERE


def places(job):
    return [coordinator.notice.end_at for coordinator in job.ranks]


@pytest.mark.parametrize("size", [2, 5])
def test_the_furthest_place_whoever_is_told(size, seed):
    chance = random.Random(seed)
    job = Job(size)
    at = [chance.randint(0, 50) for _ in range(size)]
    for rank, coordinator in enumerate(job.ranks):
        coordinator.notice.reached = lambda rank=rank: at[rank]
    job.settle()
    assert places(job) == [None] * size and not any(coordinator.notice.asked for coordinator in job.ranks)
    sent = job.wires.sent
    for rank in chance.sample(range(size), chance.randint(1, size)):
        for _ in range(chance.randint(1, 3)):
            job.ranks[rank].notice.give()
    job.settle()
    job.settle()
    assert places(job) == [max(at)] * size
    assert job.wires.sent - sent <= 4 * size
    sent = job.wires.sent
    job.ranks[-1].notice.give()  # again, when all is said
    job.settle()
    assert places(job) == [max(at)] * size and job.wires.sent == sent


def test_while_ops_wait_and_some_have_not_begun_or_have_left():
    job = Job(3)
    job.ranks[1].notice.reached = lambda: 7
    ticket = job.ranks[0].announce(ready(0))
    job.ranks[2].leaving.begin()
    job.settle()
    job.ranks[0].notice.give()
    job.settle()
    job.settle()
    assert places(job) == [7, 7, 7] and ticket
    job = Job(2)
    job.ranks[1].notice.give()
    job.settle()
    job.settle()
    assert places(job) == [NOWHERE] * 2
    for coordinator in job.ranks:  # exchanges go on
        coordinator.announce(ready(0))
    job.settle()
    assert [len(heard) for heard in job.heard] == [1, 1]

"""Messages by way of other ranks (launch/tree.py): what a job does so is what it does where all talk with rank 0.

Ranks pass messages on only between their exchanges, and not at all when they are stuck: nothing may wait for ever.
"""
import collections
import os
import random

import launch_simulation
import pytest
import test_launch_ending
import test_launch_leaving
import test_launch_order
import test_launch_troubles
from at_once import job
from launch_simulation import Job, errors_of, ready
from ranks import run_ranks
from test_launch_endings import failing, fine

from sok1x.launch import envelopes, messages, tree
from sok1x.launch.errors import LaunchError

ORDER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "mpi", "program_order.py")
# A chain: whatever rank 1 says or is told concerns all behind it.
CHAIN = {"SOK1X_TREE_RANKS": "2", "SOK1X_TREE_WIDTH": "1"}


def test_every_rank_has_one_way_and_no_rank_too_many_below_it(seed):
    chance = random.Random(seed)
    for _ in range(25):
        size, width = chance.randint(1, 100), chance.randint(1, 9)
        hosts = [chance.randrange(1 + size // 8) for _ in range(size)]
        if chance.random() < 0.7:
            hosts.sort()
        parents = tree.deep(hosts, width)
        places = [tree.of(rank, parents) for rank in range(size)]
        assert max(len(place.children) for place in places) <= width
        for place in places:
            assert place.hops[place.rank] == place.rank and (place.parent is None) == (place.rank == 0)
            for rank, hop in enumerate(place.hops):
                way = [rank] + place.way(rank)  # of which rank 0 is not named
                if place.rank in way or place.rank == 0:
                    assert hop == (rank if rank == place.rank else (
                        way[way.index(place.rank) - 1] if place.rank else way[-1]))
                else:
                    assert hop == -1
        # Each level has `width` times as many ranks as the one above, but for pieces cut at hosts.
        if len(set(hosts)) == 1 and width > 1:
            deepest, room = max(len(place.way(place.rank)) for place in places), 1
            while room < size:
                room, deepest = room * width + 1, deepest - 1
            assert deepest <= 0


def test_few_messages_between_hosts():
    for per_host in (4, 8):
        for hosts in (2, 8, 32):
            names = [rank // per_host for rank in range(hosts * per_host)]
            parents = tree.deep(names, 4)
            away = sum(names[rank] != names[parent] for rank, parent in enumerate(parents) if parent >= 0)
            assert away <= 2 * hosts, (per_host, hosts, away)


def _cases():
    """Tests of ranks that differ, wait, fail and leave, each for a width, as far as it has ranks for a tree."""
    for width in (1, 2):
        for module in (test_launch_leaving, test_launch_troubles, test_launch_ending):
            for name, function in sorted(vars(module).items()):
                # Some look at the wires between each rank and rank 0.
                if name.startswith("test_") and not any(
                        word in name for word in ("damaged", "travels_once", "furthest_place")):
                    yield width, function


def _values(function):
    """The arguments of a parametrized test: a list of dicts."""
    marks = [mark for mark in getattr(function, "pytestmark", ()) if mark.name == "parametrize"]
    values = [{}]
    for mark in marks:
        names = [name.strip() for name in mark.args[0].split(",")]
        rows = [value if len(names) > 1 else (value,) for value in mark.args[1]]
        values = [dict(one, **dict(zip(names, row))) for one in values for row in rows]
    return values


def test_ranks_that_differ_fail_and_leave_as_without_a_tree(seed, monkeypatch):
    ran = 0
    for width, function in _cases():
        monkeypatch.setattr(launch_simulation, "WIDTH", width)
        for values in _values(function):
            names = function.__code__.co_varnames[:function.__code__.co_argcount]
            given = dict(values, **({"seed": seed} if "seed" in names else {}))
            if set(names) <= set(given) and not ("stall_warning" in function.__name__ and width == 1):
                function(**given)
                ran += 1
    assert ran > 40, ran


@pytest.mark.parametrize("width, size", [(1, 4), (2, 8), (3, 8)])
def test_random_interleavings_in_a_tree(width, size, seed, monkeypatch):
    monkeypatch.setattr(launch_simulation, "WIDTH", width)
    test_launch_order.test_random_interleavings(size, 9, seed)
    test_launch_order.test_a_failed_step_does_not_meet_the_next_one(size, 4, seed)


class Deaf:
    """Ranks as they are at worst: each hears and passes on nothing while it is in an exchange, which lasts until all
    ranks are in it; and before a rank on the way begins one it waits until all that it has sent to ranks below has been
    taken there. (Rank 0 may give several words at once, and waits no longer than some seconds for long ones.)"""

    def __init__(self, job):
        self.job, self.size = job, job.size
        self.sent, self.taken = collections.Counter(), collections.Counter()
        self.waits = [None] * self.size                          # for how many messages to have been taken, by pairs
        self.todo = [collections.deque() for _ in range(self.size)]  # numbers of decisions to run
        self.inside = [None] * self.size
        self.ran = [[] for _ in range(self.size)]
        for rank, transport in enumerate(job.transports):
            transport.send = self.counted(rank, transport.send)
            transport.receive = self.receives(rank, transport.receive)
            transport.flush = self.flushes(rank)

    def counted(self, rank, send):
        def counting(target, data):
            self.sent[rank, target] += 1
            send(target, data)
        return counting

    def receives(self, rank, receive):
        def receiving():
            came = receive()
            for source, _ in came:
                self.taken[source, rank] += 1
            return came
        return receiving

    def flushes(self, rank):
        def flush(seconds, but=None):
            self.waits[rank] = {pair: count for pair, count in self.sent.items()
                                if rank == pair[0] > 0 and pair[1] != but}
            return True
        return flush

    def hears(self, rank):
        return self.inside[rank] is None and not self.todo[rank]

    def poll(self, rank):
        for decision in self.job.poll(rank):
            assert decision.error is None, decision.error
            self.todo[rank].append(decision.number)

    def move(self):
        """Goes on wherever a rank can."""
        for rank in range(self.size):
            if self.todo[rank] and self.inside[rank] is None and all(
                    self.taken[pair] >= count for pair, count in (self.waits[rank] or {}).items()):
                self.waits[rank], self.inside[rank] = None, self.todo[rank].popleft()
        if self.inside[0] is not None and len(set(self.inside)) == 1:
            for rank in range(self.size):
                self.ran[rank].append(self.inside[rank])
                self.inside[rank] = None


@pytest.mark.parametrize("width, size", [(None, 4), (1, 4), (2, 7), (3, 12)])
def test_ranks_that_hear_nothing_in_exchanges_keep_nobody_waiting(width, size, seed):
    chance = random.Random(seed)
    job = Job(size, width=width)
    deaf, ops, times = Deaf(job), 4, 100
    todo = []
    for _ in range(size):
        order = [op for op in range(ops) for _ in range(times)]
        chance.shuffle(order)
        todo.append(order)
    for _ in range(400000):
        rank, busy = chance.randrange(size), job.wires.busy()
        kind = chance.random()
        if kind < 0.4 and busy:
            job.wires.deliver(chance.choice(busy))
        elif kind < 0.6 and deaf.hears(rank):
            for _ in range(min(chance.randint(1, 3), len(todo[rank]))):
                job.ranks[rank].announce(ready(todo[rank].pop(), (rank,)))
        elif deaf.hears(rank):
            deaf.poll(rank)
        deaf.move()
        if all(len(ran) == ops * times for ran in deaf.ran):
            break
    assert [len(ran) for ran in deaf.ran] == [ops * times] * size, (deaf.inside, deaf.todo)
    assert all(job.batches(rank) == job.batches(0) for rank in range(size))


def test_a_failure_gets_round_a_rank_that_is_stuck():
    """Of a chain of four rank 1 passes nothing on."""
    others = (0, 2, 3)
    for failing_rank in (0, 3):
        job = Job(4, width=1)
        for rank in others:
            job.ranks[rank].announce(ready(0))
        job.settle(ranks=others)
        job.ranks[failing_rank].fail_job("boom")
        job.settle(0.1, ranks=others)
        job.settle(2.5, ranks=others)
        job.settle(2.5, ranks=others)
        for rank in others:
            error = job.ranks[rank].job_error
            assert (error.message, error.rank) == ("boom", failing_rank)
            assert [decision.error.message for decision in job.heard[rank]] == ["boom"]
        job.settle()
        assert [error.message for error in errors_of(job)] == ["boom"] * 4


def test_a_failure_that_comes_in_order_is_not_told_twice():
    job = Job(5, width=1)
    job.ranks[4].fail_job("boom")
    for _ in range(3):
        job.settle(2.5)
    assert [error.message for error in errors_of(job)] == ["boom"] * 5
    assert [len(errors) for errors in job.job_errors] == [1] * 5


def test_who_waits_behind_a_rank_that_is_stuck_says_so():
    job = Job(4, stall=10.0, width=1)
    for rank in (0, 2, 3):
        job.ranks[rank].announce(ready(0))
    job.settle(ranks=(0, 2, 3))
    job.settle(12.0, ranks=(0, 2, 3))
    text, = job.warnings[0]
    assert "has waited 12 s for ranks 1-3" in text and "Rank 1 has announced no op yet." in text, text
    assert ("Rank 3 has announced no op yet (rank 0 hears it by way of ranks 1, 2, which did not announce it either)."
            in text), text
    text, = job.warnings[3]
    assert "rank 0, which orders the exchanges, does not answer by way of ranks 1, 2. One of them may be" in text, text


def test_a_rank_serves_those_below_it_until_they_part():
    job = Job(3, width=1)
    for rank in (0, 1):
        job.ranks[rank].leaving.begin()
    job.settle()
    assert [coordinator.serves for coordinator in job.ranks] == [False, True, False]
    job.ranks[2].announce(ready(0, name="late"))
    job.settle(2.0)
    assert "op 'late' waits for rank" in str(job.ranks[2].job_error)
    job.ranks[2].part()
    job.settle()
    assert not job.ranks[1].serves


def test_envelopes(seed):
    chance = random.Random(seed)
    for _ in range(50):
        entries = [(chance.randint(-1, 300), bytes(chance.randrange(256) for _ in range(chance.randrange(20))))
                   for _ in range(chance.randrange(5))]
        data = envelopes.up(entries)
        assert envelopes.read_up(data) == entries
        for cut in range(1, len(data)):
            try:
                assert envelopes.read_up(data[:cut]) == entries[:len(envelopes.read_up(data[:cut]))]
            except LaunchError:
                pass
    assert envelopes.read_to_one(envelopes.to_one(7, b"word")) == (7, b"word")
    with pytest.raises(LaunchError, match="damaged"):
        envelopes.read_to_one(b"\xf4\x00")
    said = messages.encode(messages.Leave())
    for data in (envelopes.up([(3, said)]), envelopes.to_one(3, said), envelopes.alarm(said), said):
        assert [messages.decode(one) for one in envelopes.opened(data)] == [[messages.Leave()]]


@job(lambda: failing(4, "raises", env=dict(CHAIN, SOK1X_GRACE_SECONDS="1.5")))
def test_a_rank_on_the_way_that_raises(ended):
    done = ended()
    assert done.err.count("rank 1 failed: ValueError: boom on one") >= 3, str(done)


@job(lambda: failing(3, "deserted", env=CHAIN))
def test_a_rank_on_the_way_that_leaves(ended):
    done = ended()
    assert "op 'op0' waits for rank 1 that left" in done.err, str(done)


@job(lambda: fine(3, "early", 0.8, env=CHAIN))
def test_a_rank_on_the_way_that_ends_early(ended):
    ended()


@pytest.mark.parametrize("width, ranks, steps", [(2, 5, 12), pytest.param(1, 4, 200, marks=pytest.mark.slow),
                                                 pytest.param(2, 6, 200, marks=pytest.mark.slow)])
def test_eight_layers_in_any_order_in_a_tree(width, ranks, steps, seed):
    finished = run_ranks(ranks, ORDER, steps, seed, timeout=400, env=dict(CHAIN, SOK1X_TREE_WIDTH=str(width)))
    assert finished.out.count("ok") == ranks, str(finished)

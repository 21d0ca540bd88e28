"""Many ranks' coordinators in one process, joined by an in-memory transport whose delays a test chooses."""
import collections
import hashlib
import itertools

import numpy as np

from sok1x.launch import Coordinator, Instance, Op, Ready, tree
from sok1x.launch.lane import FIRST

# How many ranks talk with one in a Job that is not told (tree.py); None: all talk with rank 0.
WIDTH = None


class Clock:
    """A clock that moves when it is told to."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


class Wires:
    """What is under way between ranks: for each pair in order; a message arrives when `deliver` says so."""

    def __init__(self, size):
        self.under_way = collections.defaultdict(collections.deque)
        self.sent = 0
        self.arrived = [[] for _ in range(size)]

    def deliver(self, pair):
        self.arrived[pair[1]].append((pair[0], self.under_way[pair].popleft()))

    def busy(self):
        return [pair for pair, messages in self.under_way.items() if messages]

    def deliver_all(self):
        for pair in self.busy():
            while self.under_way[pair]:
                self.deliver(pair)


class MemoryTransport:
    """One rank's end of the wires."""

    def __init__(self, wires, rank):
        self._wires, self._rank = wires, rank
        self.closed = False
        self.unflushed = 0  # messages sent since `flush`

    def send(self, rank, data):
        assert isinstance(data, bytes) and rank != self._rank
        self._wires.under_way[self._rank, rank].append(data)
        self.unflushed += 1
        self._wires.sent += 1

    def receive(self):
        came = self._wires.arrived[self._rank]
        self._wires.arrived[self._rank] = []
        return came

    def flush(self, seconds, but=None):
        self.unflushed = 0
        return True


class Job:
    """All ranks of a job.

    `heard[r]` collects rank r's decisions in order, `warnings[r]` its warnings, `job_errors[r]` the calls of its
    on_job_error. `still[r]` is what rank r answers when it is asked whether nothing moves there. width: as WIDTH.
    """

    def __init__(self, size, stall=60.0, abort=None, deadlock=None, width=None):
        self.clock, self.wires, self.size = Clock(), Wires(size), size
        width = width or WIDTH
        self.parents = tree.deep(["a"] * size, width) if width else tree.flat(size)
        self.depth = 1 + max(len(tree.of(rank, self.parents).way(rank)) for rank in range(size))
        self.warnings = [[] for _ in range(size)]
        self.heard = [[] for _ in range(size)]
        # The last decision to run that each rank has heard: of the leader, and of C++ beside it.
        self.ran = [0] * size, [0] * size
        self.job_errors = [[] for _ in range(size)]
        self.transports = [MemoryTransport(self.wires, rank) if size > 1 else None for rank in range(size)]
        self.still = [True] * size
        self.ranks = [Coordinator(rank, size, self.transports[rank], stall, abort, self.warnings[rank].append,
                                  self.clock, deadlock, lambda rank=rank: self.still[rank], self.parents)
                      for rank in range(size)]
        for coordinator, errors in zip(self.ranks, self.job_errors):
            coordinator.on_job_error = errors.append

    def poll(self, rank):
        """Rank `rank` polls. Every batch is new, whole, and numbered from its own number on."""
        decisions = self.ranks[rank].poll()
        self.heard[rank] += decisions
        if self.size > 1:
            runs = [decision for decision in decisions if decision.error is None]
            for batch, members in itertools.groupby(runs, lambda decision: decision.batch):
                numbers = [decision.number for decision in members]
                ran = self.ran[batch >= FIRST]
                assert numbers == list(range(batch, batch + len(numbers))) and batch > ran[rank]
                ran[rank] = numbers[-1]
        return decisions

    def batches(self, rank):
        """What `rank` was told to run: for each batch its number and the decisions' numbers, ops and headers."""
        runs = [decision for decision in self.heard[rank] if decision.error is None]
        return [(batch, [(decision.number, decision.op.index, decision.headers.tolist()) for decision in members])
                for batch, members in itertools.groupby(runs, lambda decision: decision.batch)]

    def settle(self, seconds=0.0, ranks=None):
        """Lets time pass and everything arrive, on all ranks or on `ranks` (the others are busy elsewhere)."""
        self.clock.now += seconds
        for _ in range(4 * self.depth):
            self.wires.deliver_all()
            for rank in range(self.size) if ranks is None else ranks:
                self.poll(rank)


def errors_of(job):
    """The job's error as each rank knows it."""
    return [coordinator.job_error for coordinator in job.ranks]


class Plan:
    """A graph's plan, as Ready carries it."""

    def __init__(self, entries):
        self.entries = entries


def digest(entries):
    """What ranks know the last of these ops by."""
    return int.from_bytes(hashlib.blake2b("\n".join(entries).encode(), digest_size=8).digest(), "little")


def ready(op, numbers=(), error=None, plan="a\nb\nc", step=0, name=None, instance=(), graphs=1, rivals=(),
          alike=(0, 0)):
    """A Ready for op number `op` of session 0, or for op = (session, number)."""
    context, index = op if isinstance(op, tuple) else (0, op)
    lines = plan.splitlines()
    before = (lines + ["?"] * (index + 1))[:index + 1]
    return Ready(Op(context, index, digest(before)), name or "op{}".format(index), np.array(numbers, np.int64), error,
                 step, Instance(*instance), Plan(lines), graphs, rivals, alike)


def headers(job, rank=0):
    """The headers of what `rank` was told to run, in turn: of all ranks, in one list each."""
    return [d.headers.ravel().tolist() for d in job.heard[rank] if d.error is None]

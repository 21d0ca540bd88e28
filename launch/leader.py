"""The leader's half of the protocol, on rank 0: which op all ranks run next, and when one of them fails.

Rank 0 hears every rank, itself included, and decides an op when all have announced it, at once; the order of its
decisions is the order in which all ranks run their exchanges. It never waits, so ops that some ranks have not
reached hold nobody up who waits for another.
"""
import collections

import numpy as np

from . import messages
from .agreement import rank_list
from .errors import CANCELLED, INTERNAL, SAME_STEPS, LaunchError
from .plans import PlanBook
from .stall import StallInspector

# Ranks end within a moment of each other; only an op that still waits after this long has really been left alone.
LEAVE_SECONDS = 1.0
_DOOMED_STEPS = 1000


class _Pending:
    """The undecided announcements of one op: for each rank those not yet paired, oldest first."""

    __slots__ = ("key", "name", "queues", "ready", "since", "warned")

    def __init__(self, key, name, size):
        self.key, self.name = key, name
        self.queues = [collections.deque() for _ in range(size)]
        self.restart()

    def restart(self):
        """Recounts after announcements were taken out."""
        heads = [queue[0][1] for queue in self.queues if queue]
        self.ready = len(heads)
        self.since = min(heads) if heads else 0.0
        self.warned = 0

    def waiting(self):
        return [rank for rank, queue in enumerate(self.queues) if queue]

    def missing(self):
        return [rank for rank, queue in enumerate(self.queues) if not queue]


class Leader:
    """Pairs announcements and gives the words.

    Args:
        size: Number of ranks N.
        tell: Function (rank, word), the word for one rank; rank 0's own words come this way too.
        tell_all: Function (word), the word for every rank; on all ranks words arrive in the order of these calls.
        stall, abort: Seconds, or None, as in StallInspector.
        clock: Function giving seconds.
    """

    def __init__(self, size, tell, tell_all, stall, abort, clock):
        self._size, self._tell, self._tell_all, self._clock = size, tell, tell_all, clock
        self._pending = {}
        self._plans = PlanBook()
        self._inspector = StallInspector(stall, abort, self._describe)
        self._doomed = collections.OrderedDict()
        self._left, self._left_at = set(), None
        self._ended = set()
        self._last = None
        self.job_error = None
        self._handlers = {
            messages.Announce: self._announced, messages.Withdraw: self._withdrawn, messages.Leave: self._leave,
            messages.Failed: lambda rank, message: self.fail(message.error), messages.Ended: self._end}

    def hear(self, rank, message):
        """Takes a message of a rank."""
        self._handlers[type(message)](rank, message)

    def tick(self):
        """To be called now and then: warns about ops that wait, and fails the job where one waited too long."""
        if self.job_error is not None or not self._pending:
            return
        now = self._clock()
        if self._left and now - max(self._left_at, min(op.since for op in self._pending.values())) >= LEAVE_SECONDS:
            self._fail_for_left()
            return
        texts, error = self._inspector.inspect(self._pending.values(), now)
        for rank, text in texts.items():
            self._tell(rank, messages.Warn(text))
        if error is not None:
            self.fail(error)

    def fail(self, error):
        """Fails the job on all ranks (the first failure counts)."""
        if self.job_error is None:
            self.job_error = error
            self._pending.clear()
            self._tell_all(messages.JobFailed(error))

    def _announced(self, rank, message):
        if self.job_error is not None:
            return
        if message.plan_text is not None:
            error = self._plans.record(rank, message)
            if error is not None:
                self.fail(error)
                return
        if message.step and (rank, message.step) in self._doomed:
            self._tell(rank, messages.Cancel(message.ticket, self._doomed[rank, message.step]))
            return
        op = self._pending.get(message.op)
        if op is None:
            op = self._pending[message.op] = _Pending(message.op, message.name, self._size)
        queue = op.queues[rank]
        queue.append((message, self._clock()))
        if len(queue) > 1:
            return
        op.ready += 1
        if op.ready == 1:
            op.since = queue[0][1]
        elif not self._same_plan(op):
            return
        if op.ready == self._size:
            self._decide(op)

    def _same_plan(self, op):
        """Whether the ranks waiting for `op` have one plan; fails the job otherwise."""
        holders = {}
        for rank, queue in enumerate(op.queues):
            if queue:
                head = queue[0][0]
                holders.setdefault((head.plan_length, head.plan_digest), []).append(rank)
        if len(holders) > 1:
            self.fail(self._plans.mismatch(op.key, op.name, holders))
            return False
        return True

    def _decide(self, op):
        heads = [queue.popleft()[0] for queue in op.queues]
        op.restart()
        if op.ready == 0:
            del self._pending[op.key]
        failed = next((rank for rank, head in enumerate(heads) if head.error is not None), None)
        if failed is not None:
            error = heads[failed].error
            self._refuse(op, heads, LaunchError(error.code, error.message, failed))
            return
        headers = [head.header for head in heads]
        if any(len(header) != len(headers[0]) for header in headers):
            self._refuse(op, heads, LaunchError(INTERNAL, "op '{}': the ranks announced headers of {} numbers".format(
                op.name, [len(header) // 8 for header in headers])))
            return
        self._last = (op.name, self._clock())
        self._tell_all(messages.Run(op.key, self._size, b"".join(headers)))

    def _refuse(self, op, heads, error):
        self._tell_all(messages.Refuse(op.key, error))
        # What the failed step has announced besides can only be paired with a later step of another rank: drop it.
        given_up = LaunchError(CANCELLED, "given up because op '{}' failed in the same step".format(op.name),
                               error.rank)
        for rank, head in enumerate(heads):
            if head.step:
                self._doomed[rank, head.step] = given_up
                self._drop(rank, lambda other, step=head.step: other.step == step, given_up)
        while len(self._doomed) > _DOOMED_STEPS * self._size:
            self._doomed.popitem(last=False)

    def _drop(self, rank, concerned, error):
        """Takes the concerned announcements of `rank` out; tells it so, unless error is None."""
        for op in list(self._pending.values()):
            queue = op.queues[rank]
            dropped = [entry for entry in queue if concerned(entry[0])]
            if not dropped:
                continue
            op.queues[rank] = collections.deque(entry for entry in queue if not concerned(entry[0]))
            op.restart()
            if op.ready == 0:
                self._pending.pop(op.key, None)
            if error is not None:
                for message, _ in dropped:
                    self._tell(rank, messages.Cancel(message.ticket, error))

    def _withdrawn(self, rank, message):
        self._drop(rank, lambda other: other.ticket == message.ticket,
                   LaunchError(CANCELLED, "withdrawn before all ranks had announced it", rank))

    def _leave(self, rank, _):
        self._drop(rank, lambda other: True, None)
        self._left.add(rank)
        self._left_at = self._clock()
        self._tell(rank, messages.Left())
        if rank == 0 and self.job_error is None:
            self._tell_all(messages.LeaderLeft())
        if len(self._left) == self._size:
            self._tell_all(messages.AllLeft())

    def _fail_for_left(self):
        op = min(self._pending.values(), key=lambda op: op.since)
        gone = sorted(self._left)
        self.fail(LaunchError(INTERNAL, "op '{}' waits for {} that left: the program has ended there, while {} went "
                              "on. {}".format(op.name, rank_list(gone), rank_list(op.waiting()), SAME_STEPS), gone[0]))

    def _end(self, rank, _):
        self._ended.add(rank)
        if len(self._ended) == self._size:
            self._tell_all(messages.AllEnded())

    def _describe(self, rank, asked, now):
        if rank in self._left:
            return "has left (its program ended)"
        others = [op for op in self._pending.values() if op.queues[rank]]
        if others:
            op = min(others, key=lambda op: op.queues[rank][0][1])
            return "has waited {1:.0f} s for op '{0}', which {2} did not announce".format(
                op.name, now - op.queues[rank][0][1], rank_list(op.missing()))
        length = self._plans.known_length(rank, asked.key[0])
        if length is not None and length <= asked.key[1]:
            return "has built only {} ops in this graph, and this is number {}".format(length, asked.key[1])
        if self._last is None:
            return "has announced no op yet"
        return "has announced no op since '{}' was run {:.0f} s ago".format(self._last[0], now - self._last[1])


def header_bytes(header):
    """The bytes of an int64 array (any shape; None is no numbers)."""
    return b"" if header is None else np.ascontiguousarray(header, np.int64).tobytes()

"""The leader's half of the protocol, on rank 0: which op all ranks run next, and when one of them fails.

Rank 0 hears every rank, itself included, and decides an op when all have announced it, at once; the order of its
decisions is the order in which all ranks run their exchanges. It never waits, so ops that some ranks have not
reached hold nobody up who waits for another.
"""
import collections

import numpy as np

from . import messages
from .agreement import rank_list
from .deadlock import DeadlockWatch
from .errors import CANCELLED, DEADLINE_EXCEEDED, INTERNAL, SAME_STEPS, LaunchError
from .pairing import Pairing
from .plans import PlanBook
from .stall import StallInspector

# Ranks end within a moment of each other; only an op that still waits after this long has really been left alone.
LEAVE_SECONDS = 1.0
# After which what is announced is paired by its order alone, where nothing moves.
_ORDER_SECONDS = 1.0
_DOOMED_STEPS = 1000
_REMEMBERED_DECISIONS = 10000


class Leader:
    """Pairs announcements and gives the words.

    Args:
        size: Number of ranks N.
        tell: Function (rank, word), the word for one rank; rank 0's own words come this way too.
        tell_all: Function (word), the word for every rank; on all ranks words arrive in the order of these calls.
        stall, abort: Seconds, or None, as in StallInspector.
        clock: Function giving seconds.
        deadlock: Seconds after which a job in which every rank waits and nothing moves fails, or None.
    """

    def __init__(self, size, tell, tell_all, stall, abort, clock, deadlock=None):
        self._size, self._tell, self._tell_all, self._clock = size, tell, tell_all, clock
        self._pairing = Pairing(size)
        self._plans = PlanBook()
        self._inspector = StallInspector(stall, abort, self._describe)
        self._watch, self._deadlock = DeadlockWatch(size, tell_all), deadlock
        self._decided = collections.OrderedDict()  # number of a decision -> the step of each rank that it was for
        self._count = 0
        self._doomed = collections.OrderedDict()
        self._left, self._left_at = set(), None
        self._ended = set()
        self._last = None
        self.job_error = None
        self._handlers = {
            messages.Announce: self._announced, messages.Withdraw: self._withdrawn, messages.Undone: self._undone,
            messages.Gone: self._gone, messages.Leave: self._leave, messages.Ended: self._end,
            messages.Answer: lambda rank, message: self._watch.answered(rank, message, self._clock()),
            messages.Failed: lambda rank, message: self.fail(message.error)}

    def hear(self, rank, message):
        """Takes a message of a rank."""
        self._handlers[type(message)](rank, message)

    def tick(self):
        """To be called now and then: warns about ops that wait, and fails the job where one waited too long."""
        pending = self._pairing.pending
        if self.job_error is not None or not pending:
            return
        now = self._clock()
        if self._left and now - max(self._left_at, min(op.since for op in pending.values())) >= LEAVE_SECONDS:
            self._fail_for_left()
            return
        texts, error = self._inspector.inspect(pending.values(), now)
        for rank, text in texts.items():
            self._tell(rank, messages.Warn(text))
        if error is not None:
            self.fail(error)
        elif self._deadlock is not None and not self._left:
            self._look_for_deadlock(now)

    def fail(self, error):
        """Fails the job on all ranks (the first failure counts)."""
        if self.job_error is None:
            self.job_error = error
            self._pairing.clear()
            self._tell_all(messages.JobFailed(error))

    def _look_for_deadlock(self, now):
        waiting = {rank for op in self._pairing.pending.values() for rank in op.waiting()}
        if len(waiting) < self._size:
            self._watch.changed()
            return
        seconds = self._watch.still_seconds(now)
        if seconds >= min(_ORDER_SECONDS, self._deadlock / 2):
            complete = self._pairing.pair_in_order()
            self._decide_all(complete)
            if not complete and seconds >= self._deadlock:
                self._fail_for_deadlock(seconds)

    def _fail_for_deadlock(self, seconds):
        oldest = {}
        for op in sorted(self._pairing.pending.values(), key=lambda op: op.since):
            for rank in op.waiting():
                oldest.setdefault(rank, op)
        text = ["every rank waits for an op that another rank does not run, and nothing has moved on any of them for "
                "{:.0f} s (SOK1X_DEADLOCK_SECONDS={:g}).".format(seconds, self._deadlock)]
        text += ["Rank {} waits in op '{}', which {} did not announce.".format(rank, op.name, rank_list(op.missing()))
                 for rank, op in sorted(oldest.items())]
        text.append("Every rank must run the same ops, in graphs built alike, and be chief in its "
                    "MonitoredTrainingSession. " + SAME_STEPS)
        places = [self._pairing.place_of(rank, op) for rank, op in sorted(oldest.items())]
        lengths = {self._plans.length(*place) for place in places}
        difference = self._plans.mismatch(oldest[0].name, places)
        if difference.rank >= 0 and None not in lengths:
            text.append("(" + difference.message + ")")
        self.fail(LaunchError(DEADLINE_EXCEEDED, " ".join(text), -1))

    def _announced(self, rank, message):
        if self.job_error is not None:
            return
        if message.introduction is not None:
            self._plans.record(rank, message.op.context, message.introduction)
        if message.step and (rank, message.step) in self._doomed:
            self._tell(rank, messages.Cancel(message.ticket, self._doomed[rank, message.step]))
            return
        self._watch.changed()
        complete, contradicted = self._pairing.add(rank, message, self._clock())
        if contradicted is not None:
            places = [self._pairing.place_of(one, contradicted) for one in range(self._size)]
            self.fail(self._plans.mismatch(message.name, places))
        elif message.introduction is not None and self._built_differently(rank, message):
            return
        self._decide_all(complete)

    def _built_differently(self, rank, message):
        """Fails the job if the graph in which `rank` has begun to run can meet none of a rank that waits."""
        mine = rank, message.op.context
        for op in self._pairing.pending.values():
            for other in op.waiting():
                theirs = self._pairing.place_of(other, op)
                if other != rank and self._plans.surely_differ(mine, theirs):
                    places = dict(self._pairing.place_of(one, waiting) for waiting in self._pairing.pending.values()
                                  for one in waiting.waiting())
                    self.fail(self._plans.mismatch(op.name, sorted(places.items())))
                    return True
        return False

    def _decide_all(self, complete):
        for op in complete:
            while op.ready == self._size and self.job_error is None:
                self._decide(op)

    def _decide(self, op):
        heads = self._pairing.take(op)
        self._watch.changed()
        tickets = tuple(head.ticket for head in heads)
        for rank, head in enumerate(heads):
            if head.error is not None:
                self._refuse(op, heads, LaunchError(head.error.code, head.error.message, rank))
                return
        headers = [head.header for head in heads]
        if len(set(map(len, headers))) > 1:
            self._refuse(op, heads, LaunchError(INTERNAL, "op '{}': the ranks announced headers of {} numbers".format(
                op.name, [len(header) // 8 for header in headers])))
            return
        self._count += 1
        self._decided[self._count] = op.name, [head.step for head in heads]
        if len(self._decided) > _REMEMBERED_DECISIONS:
            self._decided.popitem(last=False)
        self._last = (op.name, self._clock())
        self._tell_all(messages.Run(self._count, tickets, b"".join(headers)))

    def _refuse(self, op, heads, error):
        self._tell_all(messages.Refuse(tuple(head.ticket for head in heads), error))
        self._give_up(op.name, [head.step for head in heads], error.rank)

    def _undone(self, _, message):
        """What all ranks ran has failed on all of them; each of them says so before it announces anything else."""
        name, steps = self._decided.pop(message.number, (None, None))
        if steps is not None:
            self._give_up(name, steps, -1)

    def _give_up(self, name, steps, cause):
        """What a failed step has announced besides can only be paired with a later step of another rank: drops it.

        Args:
            steps: The step of each rank; 0 where that is not known.
            cause: The rank that failed, or -1.
        """
        given_up = LaunchError(CANCELLED, "given up because op '{}' failed in the same step".format(name), cause)
        for rank, step in enumerate(steps):
            if step:
                self._doomed[rank, step] = given_up
                self._drop(rank, lambda other, step=step: other.step == step, given_up)
        while len(self._doomed) > _DOOMED_STEPS * self._size:
            self._doomed.popitem(last=False)

    def _drop(self, rank, concerned, error):
        """Takes the concerned announcements of `rank` out; tells it so, unless error is None."""
        dropped = self._pairing.drop(rank, concerned)
        if dropped:
            self._watch.changed()
        for message in dropped if error is not None else ():
            self._tell(rank, messages.Cancel(message.ticket, error))

    def _withdrawn(self, rank, message):
        self._drop(rank, lambda other: other.ticket == message.ticket,
                   LaunchError(CANCELLED, "withdrawn before all ranks had announced it", rank))

    def _gone(self, rank, message):
        self._plans.forget(rank, message.context)
        if self.job_error is None:
            self._decide_all(self._pairing.forget(rank, message.context))

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
        op = min(self._pairing.pending.values(), key=lambda op: op.since)
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
        others = [op for op in self._pairing.pending.values() if op.queues[rank]]
        if others:
            op = min(others, key=lambda op: op.queues[rank][0][1])
            return "has waited {1:.0f} s for op '{0}', which {2} did not announce".format(
                op.name, now - op.queues[rank][0][1], rank_list(op.missing()))
        length = self._plans.length(*self._pairing.place_of(rank, asked))
        if length is not None and length <= asked.key.index:
            return "has built only {} ops in this graph, and this is number {}".format(length, asked.key.index)
        if self._last is None:
            return "has announced no op yet"
        return "has announced no op since '{}' was run {:.0f} s ago".format(self._last[0], now - self._last[1])


def header_bytes(header):
    """The bytes of an int64 array (any shape; None is no numbers)."""
    return b"" if header is None else np.ascontiguousarray(header, np.int64).tobytes()

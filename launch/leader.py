"""The leader's half of the protocol, on rank 0: which op all ranks run next, and when one of them fails.

Rank 0 hears every rank, itself included, and decides an op when all have announced it, at once; the order of its
decisions is the order in which all ranks run their exchanges. It never waits, so ops that some ranks have not
reached hold nobody up who waits for another. What it finds ready in one turn, that is in all messages that were there
when it looked, it decides in one word.

Bundles meet in the pool; where that cannot be, they are taken apart and their members paired one by one. Whatever
concerns what waits (a failure, a withdrawal, a rank that leaves, a wait that becomes long) first takes apart all
bundles.
"""
import collections

from . import messages
from .batches import Batch, Decided
from .bundles import Bundle
from .deadlock import DeadlockWatch, deadlock_error
from .ending import Ending
from .errors import CANCELLED, INTERNAL, LaunchError, is_eager
from .hosts import rank_list
from .lane import FIRST, Lane
from .left_alone import LeftRanks
from .pairing import Pairing
from .plans import PlanBook
from .pool import Pool, apart
from .stall import StallInspector

# After which what is announced is paired by its order alone, where nothing moves.
_ORDER_SECONDS = 1.0
_DOOMED_STEPS = 1000
# Bundles that have found no others after this long are paired one by one.
_WHOLE_SECONDS = 0.05


class Leader:
    """Pairs announcements and gives the words.

    Args:
        size: Number of ranks N.
        tell: Function (rank, word), the word for one rank; rank 0's own words come this way too.
        tell_all: Function (word), the word for every rank; on all ranks words arrive in the order of these calls.
        stall, abort: Seconds, or None, as in StallInspector.
        clock: Function giving seconds.
        deadlock: Seconds after which a job in which every rank waits and nothing moves fails, or None.
        tree: Rank 0's tree.Tree, or None where all ranks talk with it directly.

    Attributes:
        lane: See lane.py.
    """

    def __init__(self, size, tell, tell_all, stall, abort, clock, deadlock=None, tree=None):
        self._size, self._tell, self._tell_all, self._clock = size, tell, tell_all, clock
        self._pairing, self._pool = Pairing(size), Pool(size)
        self._complete = []  # of the pairing, what all ranks have announced and is not yet decided
        self._plans = PlanBook()
        self._inspector = StallInspector(stall, abort, self._describe)
        self._watch, self._deadlock = DeadlockWatch(size, tell_all), deadlock
        self._tree = tree
        self._decided = Decided()
        self._doomed = collections.OrderedDict()
        self._left, self._ended = LeftRanks(), {}
        self._ending = Ending(size, tell_all)
        self._last = None
        self.lane = Lane()
        self.job_error = None
        self._announcements = {Bundle: self._bundled, messages.Announce: self._announced}
        self._handlers = {
            messages.Withdraw: self._withdrawn, messages.Undone: self._undone,
            messages.Gone: self._gone, messages.Leave: self._leave, messages.Ended: self._end,
            messages.Noticed: self._ending.noticed, messages.Reached: self._ending.reached,
            messages.Answer: lambda rank, message: self._watch.answered(rank, message, self._clock()),
            messages.Failed: lambda rank, message: self.fail(message.error)}

    @property
    def idle(self):
        """Whether nothing waits here, and nobody has left or failed."""
        return not (self._pool or self._pairing.pending or self._complete or self._left or self.job_error)

    def hear(self, rank, message):
        """Takes a message of a rank. What is ready by its announcements is decided by `decide`, at the latest."""
        entered = self._announcements.get(type(message))
        if entered is None:
            self.decide()
            self._handlers[type(message)](rank, message)
        elif self.job_error is None:
            entered(rank, message)

    def decide(self):
        """To be called at the end of a turn: decides what all ranks have announced."""
        if not self._pool.complete and not self._complete:
            return
        batch = Batch(self._size)
        if not self._pool.take(batch):
            self._take_apart()
        while self._complete:
            op = self._complete.pop(0)
            while op.ready == self._size and self._pairing.pending.get(op.key) is op:
                batch = self._decide(op, batch)
        self._give_word(batch)

    def tick(self):
        """To be called now and then: warns about ops that wait, and fails the job where one waited too long."""
        pending, now = self._pairing.pending, self._clock()
        if self._pool and (pending or now - self._pool.oldest() >= _WHOLE_SECONDS):
            self._take_apart()
        self.decide()
        if self.job_error is not None or not pending:
            return
        error = self._left.judge(pending.values(), now)
        if error is not None:
            self.fail(error)
            return
        texts, error = self._inspector.inspect(pending.values(), now)
        for rank, text in texts.items():
            self._tell(rank, messages.Warn(text))
        if error is not None:
            self.fail(error)
        elif self._deadlock is not None and not self._left:
            self._look_for_deadlock(now)
        self.decide()

    def fail(self, error):
        """Fails the job on all ranks (the first failure counts)."""
        if self.job_error is None:
            self.job_error = error
            self._pool.clear()
            self._pairing.clear()
            self._tell_all(messages.JobFailed(error))

    def _look_for_deadlock(self, now):
        waiting = {rank for op in self._pairing.pending.values() for rank in op.waiting()}
        if len(waiting) < self._size:
            self._watch.changed()
            return
        seconds = self._watch.still_seconds(now)
        certain = self._watch.certain and seconds > 0
        if certain or seconds >= min(_ORDER_SECONDS, self._deadlock / 2):
            complete = self._pairing.pair_in_order()
            self.lane.disagree()
            self._complete += complete
            if not complete and (certain or seconds >= self._deadlock):
                self.fail(deadlock_error(self._pairing, self._plans, seconds, self._deadlock, certain))

    def _announced(self, rank, message):
        if message.introduction is not None:
            self._plans.record(rank, message.op.context, message.introduction)
        self._watch.changed()
        self._take_apart()
        self._add(rank, message, self._clock())

    def _bundled(self, rank, bundle):
        if bundle.step and (rank, bundle.step) in self._doomed:
            self._tell(rank, messages.Cancel(tuple(bundle.tickets), self._doomed[rank, bundle.step]))
            return
        self._watch.changed()
        group, now = self._pairing.group_of(rank, bundle), self._clock()
        if group is None or not self._pool.add(rank, group, bundle, now):
            self._take_apart()
            for message in apart(bundle):
                self._add(rank, message, now)

    def _take_apart(self):
        """Hands what is in the pool to the pairing."""
        for rank, message, since in self._pool.take_all():
            self._add(rank, message, since)

    def _add(self, rank, message, since):
        if self.job_error is not None:
            return
        if message.step and (rank, message.step) in self._doomed:
            self._tell(rank, messages.Cancel((message.ticket,), self._doomed[rank, message.step]))
            return
        complete, contradicted = self._pairing.add(rank, message, since)
        if contradicted is not None:
            places = [self._pairing.place_of(one, contradicted) for one in range(self._size)]
            self._fail_after_deciding(self._plans.mismatch(message.name, places))
        elif message.introduction is None or not self._built_differently(rank, message):
            self._complete += complete

    def _fail_after_deciding(self, error):
        """Fails the job for what is announced, as if each announcement before had been decided at once."""
        self.decide()
        self.fail(error)

    def _built_differently(self, rank, message):
        """Fails the job if the graph in which `rank` has begun to run can meet none of a rank that waits."""
        mine = rank, message.op.context
        decided = set(map(id, self._complete))
        waiting = [op for op in self._pairing.pending.values() if id(op) not in decided]
        theirs = {self._pairing.place_of(other, op): op for op in waiting for other in op.waiting() if other != rank}
        for place, op in theirs.items():
            if self._plans.surely_differ(mine, place):
                places = dict(self._pairing.place_of(one, another) for another in waiting for one in another.waiting())
                self._fail_after_deciding(self._plans.mismatch(op.name, sorted(places.items())))
                return True
        return False

    def _decide(self, op, batch):
        """Puts an op into the batch, or refuses it. Returns the batch that goes on: a refusal gives the word before."""
        heads = self._pairing.take(op)
        self._watch.changed()
        error = next((LaunchError(head.error.code, head.error.message, rank) for rank, head in enumerate(heads)
                      if head.error is not None), None)
        if error is None and len({len(head.header) for head in heads}) > 1:
            error = LaunchError(INTERNAL, "op '{}': the ranks announced headers of {} numbers".format(
                op.name, [len(head.header) // 8 for head in heads]))
        if error is None:
            batch.add(op.name, heads)
            return batch
        self._give_word(batch)
        self._tell_all(messages.Refuse(tuple(head.ticket for head in heads), error))
        self._give_up(op.name, [head.step for head in heads], error.rank)
        return Batch(self._size)

    def _give_word(self, batch):
        if batch and self.job_error is None:
            self._watch.changed()
            self._last = batch.last, self._clock()
            self._tell_all(batch.word(self._decided.add(batch)))
            for sessions in batch.sessions:
                self.lane.agree(*sessions)

    def _undone(self, _, message):
        """What all ranks ran has failed on all of them; each of them says so before it announces anything else."""
        name, steps = (self._decided if message.number < FIRST else self.lane).undo(message.number)
        if name is not None:
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
                self.lane.give_up(rank, step)
                self._drop(rank, lambda other, step=step: other.step == step, given_up)
        while len(self._doomed) > _DOOMED_STEPS * self._size:
            self._doomed.popitem(last=False)

    def _drop(self, rank, concerned, error):
        """Takes the concerned announcements of `rank` out; tells it so, unless error is None."""
        self._take_apart()
        dropped = self._pairing.drop(rank, concerned)
        if dropped:
            self._watch.changed()
            if error is not None:
                self._tell(rank, messages.Cancel(tuple(message.ticket for message in dropped), error))

    def _withdrawn(self, rank, message):
        self._drop(rank, lambda other: other.ticket == message.ticket,
                   LaunchError(CANCELLED, "withdrawn before all ranks had announced it", rank))

    def _gone(self, rank, message):
        self._plans.forget(rank, message.context)
        self.lane.disagree()
        if self.job_error is None:
            self._take_apart()
            self._complete += self._pairing.forget(rank, message.context)

    def _leave(self, rank, _):
        self._drop(rank, lambda other: True, None)
        self._left.add(rank, self._clock())
        self._ending.left(rank)
        self._tell(rank, messages.Left())
        if rank == 0 and self.job_error is None:
            self._tell_all(messages.LeaderLeft())
        if len(self._left) == self._size:
            self._tell_all(messages.AllLeft())

    def _end(self, rank, message):
        self._ended[rank] = message.finalises
        if len(self._ended) == self._size:
            self._tell_all(messages.AllEnded(all(self._ended.values())))

    def _describe(self, rank, asked, now):
        missing = set(asked.missing())
        way = [one for one in self._tree.way(rank) if one in missing] if self._tree else ()
        return self._seen(rank, asked, now) + (
            " (rank 0 hears it by way of {}, which did not announce it either)".format(rank_list(way)) if way else "")

    def _seen(self, rank, asked, now):
        if rank in self._left:
            return "has left (its program ended)"
        others = [op for op in self._pairing.pending.values() if op.queues[rank]]
        if others:
            op = min(others, key=lambda op: op.queues[rank][0][1])
            return "has waited {1:.0f} s for op '{0}', which {2} did not announce".format(
                op.name, now - op.queues[rank][0][1], rank_list(op.missing()))
        length = None if is_eager(asked.key) else self._plans.length(*self._pairing.place_of(rank, asked))
        if length is not None and length <= asked.key.index:
            return "has built only {} ops in this graph, and this is number {}".format(length, asked.key.index)
        if self._last is None:
            return "has announced no op yet"
        return "has announced no op since '{}' was run {:.0f} s ago".format(self._last[0], now - self._last[1])

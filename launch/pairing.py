"""Which announcements of the ranks belong together, on rank 0.

Ranks know an op by its plan up to it (messages.Op.digest), and one run of it by its place in loops and, for a
gradient, by the lookup that it belongs to (messages.Instance). What remains is which session of one rank is which of
another: ranks number their sessions (contexts) by themselves, and one may have sessions and graphs that no other has,
an export on rank 0, say. So a session of another rank is bound to one of rank 0's when both have announced the same op,
the first time. If a rank has several sessions on the op's graph, its rivals, they are bound in the order in which they
were begun: only two that have equally many unbound rivals begun before them. If it has several graphs with the op that
have not met others yet, sessions are bound in the order in which these were built, whichever thread comes first: only
two whose graphs were the k-th of their ranks with the op. Where a rank has built more of them than another, as the
sessions say that have been bound last, it is counted from there.

Within bound sessions the k-th announcement of an op's run on each rank belongs to the k-th of the others. What is told
here of a bundle of such a session is whether it may go into the pool (pool.py), which holds no run that waits here.

Where nothing moves on any rank any more, ranks may still belong together: one has a rival, or a graph, that the others
never made, or asks for more in a session.run (Instance.signature). Then `pair_in_order` goes by the order of
announcements alone; but gradients that one rank only looks at are never those that another steps by.
"""
import collections
from typing import Any, Dict, List, Optional, Set, Tuple

from .bundles import PLACE, RUN, Bundle
from .messages import Announce, Instance
from .pending import Key, Pending
from .pool import Group

_REMEMBERED_COLUMNS = 1000


class Pairing:
    """The announcements without a decision, and which sessions of the ranks are bound to each other.

    Attributes:
        pending: Dict from Key to Pending.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self.pending: Dict[Key, Pending] = {}
        self._loose = False  # whether an announcement may wait in a session that is not bound
        self._bound: List[Dict[int, int]] = [{} for _ in range(size)]  # of each rank: its session -> rank 0's
        self._taken: List[Set[int]] = [set() for _ in range(size)]     # of each rank: rank 0's sessions it is bound to
        self._rivals: Dict[Tuple[int, int, int], Set[int]] = {}        # (rank, context, digest) -> sessions
        self._alike: Dict[Tuple[int, int, int], Tuple[int, int]] = {}  # likewise -> what Ready.alike says
        self._more: Dict[Tuple[int, int], int] = {}  # (rank, digest) -> how many graphs it has built more than rank 0
        self._digests: Dict[Tuple[int, int], int] = {}                 # (rank 0's session, index) -> the op's digest
        self._signatures: Dict[Tuple[int, int, int], int] = {}         # (rank, rank 0's session, its) -> the others'
        self._met: Set[int] = set()                                    # rank 0's sessions bound on all ranks
        # Of rank 0's session: the places that `_digests` has, and the columns of bundles that were found fit.
        self._places: Dict[int, Set[bytes]] = collections.defaultdict(set)
        self._fit: Dict[int, Set[bytes]] = collections.defaultdict(set)

    def add(self, rank: int, message: Announce, now: float) -> Tuple[List[Pending], Optional[Pending]]:
        """Enters an announcement.

        Returns:
            (what all ranks have announced now; or else a Pending that another rank's op contradicts: at the same
            place of the same graph it has another op).
        """
        op = message.op
        home, context = self._home(rank, op.context)
        key = Key(home, context, op.index, op.digest, message.instance)
        if self._signatures:
            key = key.signed(self._signatures.get((rank, context, message.instance.signature),
                                                  message.instance.signature))
        pending = self.pending.get(key)
        if pending is None:
            pending = self.pending[key] = Pending(key, message.name, self._size)
        queue = pending.queues[rank]
        queue.append((message, now))
        if len(queue) == 1:
            pending.ready += 1
            pending.since = now if pending.ready == 1 else pending.since
        if message.introduction is not None and message.introduction["rivals"]:
            self._rivals[rank, op.context, op.digest] = set(message.introduction["rivals"])
        if message.introduction is not None and any(message.introduction["alike"]):
            built, others = message.introduction["alike"]
            self._alike[rank, op.context, op.digest] = built, others
        touched = [pending]
        if home:
            self._loose = True
            touched += self._bind(rank)
        elif self._loose and rank == 0:
            touched += self._bind_all()
        elif pending.ready < self._size:
            return (), self._conflict(touched)
        return self._complete(touched), self._conflict(touched)

    def group_of(self, rank: int, bundle: Bundle) -> Optional[Group]:
        """The group in the pool that a bundle of `rank` belongs to; None if its members must be added here."""
        context = bundle.context if rank == 0 else self._bound[rank].get(bundle.context)
        if context not in self._met:
            return None
        fit = self._fit[context]
        if bundle.places not in fit:
            places = bundle.op_places()
            distinct = set(places)
            if not distinct <= self._places[context]:
                return None
            if len(distinct) == len(places):
                if len(fit) >= _REMEMBERED_COLUMNS:
                    fit.clear()
                fit.add(bundle.places)
            elif len(set(bundle.keys())) < len(places):
                return None
        signature = bundle.signature
        if self._signatures:
            signature = self._signatures.get((rank, context, signature), signature)
        if self.pending:
            for place, run in zip(PLACE.iter_unpack(bundle.places), RUN.iter_unpack(bundle.runs)):
                if Key(0, context, *place, instance=Instance(*run, signature=signature)) in self.pending:
                    return None
        return Group(context, signature)

    def take(self, pending: Pending) -> List[Announce]:
        """Takes out the oldest announcement of each rank, of a run that all have announced."""
        self._met.add(pending.key.context)
        heads = [queue.popleft()[0] for queue in pending.queues]
        self._recount(pending)
        return heads

    def drop(self, rank: int, concerned: Any) -> List[Announce]:
        """Takes out the announcements of `rank` for which `concerned(message)` is true."""
        dropped = []
        for pending in list(self.pending.values()):
            queue = pending.queues[rank]
            if any(concerned(message) for message, _ in queue):
                dropped += [message for message, _ in queue if concerned(message)]
                pending.queues[rank] = collections.deque(entry for entry in queue if not concerned(entry[0]))
                self._recount(pending)
        return dropped

    def clear(self) -> None:
        """Takes out all."""
        self.pending.clear()

    def forget(self, rank: int, context: int) -> List[Pending]:
        """A session of `rank` is gone: it is nobody's rival any more. Returns what all ranks have announced now."""
        for key in [key for key in self._rivals if key[0] == rank]:
            self._rivals[key].discard(context)
            if key[1] == context:
                del self._rivals[key]
        for key in [key for key in self._alike if key[:2] == (rank, context)]:
            del self._alike[key]
        if rank == 0:
            for taken in self._taken:
                taken.discard(context)
            for place in [place for place in self._digests if place[0] == context]:
                del self._digests[place]
            for of_contexts in (self._places, self._fit):
                of_contexts.pop(context, None)
            self._met.discard(context)
            for place in [place for place in self._signatures if place[1] == context]:
                del self._signatures[place]
        else:
            self._bound[rank].pop(context, None)
        return self._complete(self._bind_all())

    def pair_in_order(self) -> List[Pending]:
        """Binds sessions, and kinds of session.run, that have announced the same op, in the order of announcements.

        Returns:
            What all ranks have announced now.
        """
        touched = self._bind_all(by_order=True)
        for pending in sorted(self.pending.values(), key=lambda pending: pending.since):
            for other in list(self.pending.values()):
                if (other is not pending and pending.key in self.pending and other.key.rank == pending.key.rank == 0
                        and other.key.context == pending.key.context and other.key.may_be(pending.key)
                        and not set(other.waiting()) & set(pending.waiting())):
                    kept, moved = pending, other
                    alike = other.key.instance.gradients == pending.key.instance.gradients
                    if alike and other.renamed and not pending.renamed:
                        # What a rank's kind is known as stays: where it is one on all ranks, it is to meet from now on.
                        kept, moved = other, pending
                    for rank in moved.waiting():
                        for message, _ in moved.queues[rank]:
                            place = rank, moved.key.context, message.instance.signature
                            self._signatures[place] = kept.key.instance.signature
                    touched.append(self._join(moved, kept.key))
        return self._complete(touched)

    def place_of(self, rank: int, pending: Pending) -> Tuple[int, int]:
        """(rank, its session) in which `rank` would run a pending op; session -1 where that is not known."""
        if pending.queues[rank]:
            return rank, pending.queues[rank][0][0].op.context
        if pending.key.rank == 0:
            if rank == 0:
                return 0, pending.key.context
            for context, bound in self._bound[rank].items():
                if bound == pending.key.context:
                    return rank, context
        return rank, -1

    def _home(self, rank, context):
        if rank == 0:
            return 0, context
        bound = self._bound[rank].get(context)
        return (rank, context) if bound is None else (0, bound)

    def _get(self, key, name):
        pending = self.pending.get(key)
        if pending is None:
            pending = self.pending[key] = Pending(key, name, self._size)
        return pending

    def _recount(self, pending):
        pending.restart()
        if pending.ready == 0:
            self.pending.pop(pending.key, None)

    def _complete(self, touched):
        return [pending for pending in touched
                if pending.ready == self._size and self.pending.get(pending.key) is pending]

    def _bind_all(self, by_order=False):
        touched = []
        for rank in sorted({key.rank for key in self.pending} - {0}):
            touched += self._bind(rank, by_order)
        self._loose = any(key.rank for key in self.pending)
        return touched

    def _bind(self, rank, by_order=False):
        """Binds sessions of `rank` as far as possible. Returns the Pendings that have gained announcements."""
        touched = []
        while True:
            pair = self._match(rank, by_order)
            if pair is None:
                return touched
            digest, context, target = pair
            more = self._built(rank, context, digest)[0] - self._built(0, target, digest)[0]
            if more or (rank, digest) in self._more:
                self._more[rank, digest] = more
            self._bound[rank][context] = target
            self._taken[rank].add(target)
            for key in [key for key in self.pending if key[:2] == (rank, context)]:
                touched.append(self._join(self.pending[key], key._replace(rank=0, context=target)))

    def _join(self, pending, key):
        """Moves the announcements of `pending` to the Pending with this key, which it returns."""
        del self.pending[pending.key]
        joined = self._get(key, pending.name)
        for queue, more in zip(joined.queues, pending.queues):
            queue.extend(more)
        joined.restart()
        return joined

    def _match(self, rank, by_order):
        """(an op's digest, an unbound session of `rank`, rank 0's that it belongs to), or None."""
        free = [pending for pending in self.pending.values()
                if pending.key.rank == 0 and pending.queues[0] and pending.key.context not in self._taken[rank]]
        free.sort(key=lambda pending: pending.since)
        loose = [pending for pending in self.pending.values() if pending.key.rank == rank]
        loose.sort(key=lambda pending: pending.since)
        for mine in loose:
            for theirs in free:
                if by_order:
                    fits = mine.key.may_be(theirs.key)
                else:
                    fits = mine.key.run == theirs.key.run and self._before(rank, mine, rank) == self._before(
                        0, theirs, rank) and self._of_one_graph(rank, mine.key, theirs.key)
                if fits:
                    return mine.key.digest, mine.key.context, theirs.key.context
        return None

    def _built(self, rank, context, digest):
        return self._alike.get((rank, context, digest), (0, 0))

    def _of_one_graph(self, rank, mine, theirs):
        """Whether sessions of `rank` and rank 0 are on the graph that is the same one's in the order of building."""
        built, others = self._built(rank, mine.context, mine.digest)
        first_built, first_others = self._built(0, theirs.context, theirs.digest)
        if not others and not first_others:
            return True  # whichever it is: there is no other
        return built - first_built == self._more.get((rank, mine.digest), 0)

    def _before(self, rank, pending, other):
        """How many rivals of a pending op's session on `rank` are begun before it and unbound between 0 and `other`."""
        rivals = self._rivals.get((rank, pending.key.context, pending.key.digest), ())
        bound = self._taken[other] if rank == 0 else self._bound[other]
        return sum(rival not in bound for rival in rivals)

    def _conflict(self, touched):
        """A Pending in a bound session at whose place in the graph another rank has another op; else None."""
        for pending in touched:
            if pending.key.rank == 0:
                place = pending.key.context, pending.key.index
                if self._digests.setdefault(place, pending.key.digest) != pending.key.digest:
                    return pending
                self._places[pending.key.context].add(PLACE.pack(pending.key.index, pending.key.digest))
        return None

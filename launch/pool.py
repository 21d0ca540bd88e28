"""Bundles that wait on rank 0 for those of other ranks.

Here meet the ops of sessions that rank 0 has paired already, whatever bundles each rank has announced them in. Mostly
all ranks announce the same bundle, and it is taken as it is. Where they differ, what they have in common is found by
the members' keys. Everything else (sessions that are new, errors, several announcements of one op's run, ops that have
waited for some time) is pairing.py's business: the pool gives all it has to it and starts anew.
"""
import itertools
from typing import Dict, List, NamedTuple, Optional, Tuple

from .bundles import PLACE, RUN, Bundle, rows
from .messages import Announce, Instance, Op

_REMEMBERED_GROUPS = 20


class Group(NamedTuple):
    """Members that may meet: of one session, by rank 0's number, and of one kind of session.run."""
    context: int
    signature: int


class Member(NamedTuple):
    """One of a bundle's ops, on its own: as in Bundle, and when it came."""
    ticket: int
    name: str
    width: int
    header: bytes
    context: int
    step: int
    signature: int
    came: Tuple[float, int]

    def announce(self, key):
        """The announcement that it is."""
        place, run = PLACE.unpack_from(key), RUN.unpack_from(key, PLACE.size)
        return Announce(self.ticket, self.step, Op(self.context, *place), Instance(*run, signature=self.signature),
                        self.name, None, self.header, None)


def _members(bundle, came):
    """The Members of a Bundle, an iterable."""
    same = map(itertools.repeat, (bundle.context, bundle.step, bundle.signature, came))
    return rows(Member, bundle.tickets, bundle.names, bundle.numbers_in_headers(), bundle.pieces_of_headers(), *same)


def apart(bundle: Bundle) -> List[Announce]:
    """The members of a bundle as announcements of their own."""
    return [member.announce(key) for key, member in zip(bundle.keys(), _members(bundle, None))]


class _Meeting:
    """What the ranks have announced of one group.

    Attributes:
        whole: For each rank, None or (a bundle that waits as it is, when it came).
        members: For each rank, Members of bundles taken apart, by their keys. One of the two is empty.
        missing: Number of ranks that have announced nothing.
    """

    __slots__ = ("whole", "members", "missing")

    def __init__(self, size: int) -> None:
        self.whole: List[Optional[Tuple[Bundle, Tuple[float, int]]]] = [None] * size
        self.members: List[Dict[bytes, Member]] = [{} for _ in range(size)]
        self.missing = size

    def add(self, rank, bundle, came):
        """Enters a bundle. Returns False, and does nothing, if one of its members waits already."""
        members = self.members[rank]
        if self.whole[rank] is None and not members:
            self.whole[rank] = bundle, came
            self.missing -= 1
            return True
        self.take_apart(rank)
        keys = bundle.keys()
        if not members.keys().isdisjoint(keys):
            return False
        members.update(zip(keys, _members(bundle, came)))
        return True

    def take_apart(self, rank):
        """Has a whole bundle wait as members."""
        if self.whole[rank] is not None:
            bundle, came = self.whole[rank]
            self.whole[rank] = None
            self.members[rank].update(zip(bundle.keys(), _members(bundle, came)))

    def take(self, batch):
        """Moves what all ranks have announced into a Batch; False, and nothing, if headers of it differ in length."""
        size = len(self.whole)
        if None not in self.whole:
            alike = Bundle(*zip(*[bundle for bundle, _ in self.whole]))  # each field of all ranks
            if (alike.places.count(alike.places[0]) == alike.runs.count(alike.runs[0])
                    == alike.widths.count(alike.widths[0]) == size):
                batch.add_bundles(alike)
                self.whole = [None] * size
                self.missing = size
                return True
        for rank in range(size):
            self.take_apart(rank)
        others = self.members[1:]
        common = [key for key in self.members[0] if all([key in members for members in others])]
        widths = [[members[key].width for key in common] for members in self.members]
        if widths.count(widths[0]) < size:
            return False
        if common:
            batch.add_members([[members.pop(key) for key in common] for members in self.members])
            self.missing = sum(not members for members in self.members)
        return True


class Pool:
    """The waiting bundles of all ranks.

    Args:
        size: Number of ranks N.

    Attributes:
        complete: Of the groups that have gained something since `take`, those of which all ranks have something.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._meetings: Dict[Group, _Meeting] = {}  # those without announcements are kept for the next
        self.complete: Dict[Group, _Meeting] = {}
        self._oldest: Optional[float] = None
        self._arrivals = 0

    def __bool__(self):
        return self._oldest is not None

    def oldest(self):
        """Since when something waits here that has found no others yet, at most; None if nothing waits."""
        return self._oldest

    def add(self, rank: int, group: Group, bundle: Bundle, now: float) -> bool:
        """Enters a bundle of `rank`. Returns False, and does nothing, if one of its members waits already."""
        meeting = self._meetings.get(group)
        if meeting is None:
            meeting = self._meetings[group] = _Meeting(self._size)
        self._arrivals += 1
        if not meeting.add(rank, bundle, (now, self._arrivals)):
            return False
        if not meeting.missing:
            self.complete[group] = meeting
        if self._oldest is None:
            self._oldest = now
        return True

    def take(self, batch) -> bool:
        """Moves what all ranks have announced into a Batch.

        Returns:
            False if ranks announced headers of different lengths for some op: it stays, as does what met beside it.
        """
        even = True
        for meeting in self.complete.values():
            even = meeting.take(batch) and even
        self.complete.clear()
        if all([meeting.missing == self._size for meeting in self._meetings.values()]):
            self._oldest = None
            if len(self._meetings) > _REMEMBERED_GROUPS:
                self._meetings.clear()
        return even

    def take_all(self) -> List[Tuple[int, Announce, float]]:
        """Takes out everything: (rank, the announcement, since when it waits), in the order in which it came."""
        if self._oldest is None:
            return []
        everything = []
        for meeting in self._meetings.values():
            for rank, members in enumerate(meeting.members):
                meeting.take_apart(rank)
                everything += [(member.came, member.ticket, rank, member.announce(key))
                               for key, member in members.items()]
        self.clear()
        everything.sort(key=lambda entry: entry[:2])
        return [(rank, message, since) for (since, _), _, rank, message in everything]

    def clear(self) -> None:
        """Drops everything."""
        self._meetings.clear()
        self.complete.clear()
        self._oldest = None

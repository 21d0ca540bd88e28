"""What rank 0 decides in one turn: the ops that all ranks run next, gathered into one word; and what was decided."""
import collections
import itertools
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

from . import bundles

_REMEMBERED = 10000


class _Part(NamedTuple):
    """Ops decided to run: names and numbers in headers of each; for each rank the tickets, steps and joined headers."""
    names: Sequence[str]
    widths: bytes
    tickets: List[Sequence[int]]
    steps: List[Sequence[int]]
    headers: List[bytes]


class Batch:
    """Ops decided to run, in the order in which all ranks will run them.

    Args:
        size: Number of ranks N.

    Attributes:
        sessions: Where the ops have been announced: pairs of tuples [N], the sessions and the kinds of session.run.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self.parts: List[_Part] = []
        self.sessions: Set[Tuple[Tuple[int, ...], Tuple[int, ...]]] = set()

    def __bool__(self):
        return bool(self.parts)

    @property
    def last(self):
        """The last op's name."""
        return self.parts[-1].names[-1]

    def add(self, name, heads):
        """Adds an op: an Announce of each rank, with headers of one length."""
        self.sessions.add((tuple([head.op.context for head in heads]),
                           tuple([head.instance.signature for head in heads])))
        self.parts.append(_Part((name,), bundles.pack_widths([len(heads[0].header) // 8]),
                                [(head.ticket,) for head in heads], [(head.step,) for head in heads],
                                [head.header for head in heads]))

    def add_bundles(self, alike):
        """Adds the members of bundles of the same members in the same order: a Bundle of columns, an item a rank."""
        self.sessions.add((tuple(alike.context), tuple(alike.signature)))
        count = alike.count[0]
        self.parts.append(_Part(alike.names[0], alike.widths[0],
                                [range(ticket, ticket + count) for ticket in alike.ticket],
                                [(step,) * count for step in alike.step], alike.headers))

    def add_members(self, of_ranks):
        """Adds ops: for each rank the Members (pool.py) that it has announced them as."""
        columns = [list(zip(*members)) for members in of_ranks]
        firsts = [members[0] for members in of_ranks]
        self.sessions.add((tuple([one.context for one in firsts]), tuple([one.signature for one in firsts])))
        tickets, names, widths, headers, _, steps = list(zip(*columns))[:6]
        self.parts.append(_Part(names[0], bundles.pack_widths(widths[0]), tickets, steps, list(map(b"".join, headers))))

    def word(self, number):
        """The Run that has all ranks run these ops, the first of which is decision `number`."""
        if len(self.parts) == 1:
            part = self.parts[0]
            return bundles.run(number, part.widths, part.tickets, part.headers)
        _, widths, tickets, _, headers = zip(*self.parts)
        return bundles.run(number, b"".join(widths), [
            list(itertools.chain.from_iterable(of_rank)) for of_rank in zip(*tickets)],
                           [b"".join(of_rank) for of_rank in zip(*headers)])


class Decided:
    """The decisions of late: the ops' names, and the step of each rank that they were for."""

    def __init__(self) -> None:
        self.count = 0  # of all decisions ever
        self._parts: Dict[int, Tuple[Sequence[str], Any]] = collections.OrderedDict()  # first number -> names, steps
        self._undone: Dict[int, None] = collections.OrderedDict()
        self._remembered = 0

    def add(self, batch: Batch) -> int:
        """Numbers the decisions of a batch; returns the first one's number."""
        first = self.count + 1
        for part in batch.parts:
            self._parts[self.count + 1] = part.names, part.steps
            self.count += len(part.names)
            self._remembered += len(part.names)
        while self._remembered > _REMEMBERED and len(self._parts) > 1:
            self._remembered -= len(self._parts.popitem(last=False)[1][0])
        return first

    def undo(self, number: int) -> Tuple[Optional[str], Sequence[int]]:
        """(name, step of each rank) of a decision that has failed; (None, ()) if unknown, or if asked before."""
        first = next((first for first in reversed(self._parts) if first <= number), None)
        if first is None or number > self.count or number in self._undone:
            return None, ()
        self._undone[number] = None
        if len(self._undone) > _REMEMBERED:
            self._undone.popitem(last=False)
        names, steps = self._parts[first]
        return names[number - first], [of_rank[number - first] for of_rank in steps]

"""What one rank has announced: the announcement, its answer, and those still without one."""
import itertools
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import numpy as np

from .bundles import Run, header_bytes, rows
from .errors import INTERNAL, LaunchError
from .messages import Instance, Op


class Ready(NamedTuple):
    """An op that is ready on this rank.

    Attributes:
        op: As this rank knows it.
        name: For messages.
        header: int64 array, as long on every rank; all ranks get all headers.
        error: None, or why the op cannot run on this rank: then it fails on all.
        step: Number of this rank's session run that the op belongs to; 0 = unknown. When an op is refused, what the
            same step has announced besides is given up, so that it does not meet the next step of another rank.
        instance: Which run of the op within its session.
        plan: Has `entries`, the list of texts of the ops of the op's graph: shown where ranks differ. None: unknown.
        graphs: How many graphs with ops that communicate this process has built; 0 where the op's does not count.
        rivals: Numbers of this rank's other sessions on the op's graph that were begun earlier.
        alike: (How many other graphs of this process had the very op before the op's graph had it; how many of those
            that are there now have it, too, and have not met other ranks yet.)
    """
    op: Op
    name: str
    header: Optional[np.ndarray]
    error: Optional[LaunchError] = None
    step: int = 0
    instance: Instance = Instance()
    plan: Any = None
    graphs: int = 1
    rivals: Tuple[int, ...] = ()
    alike: Tuple[int, int] = (0, 0)


class Decision(NamedTuple):
    """The answer to one announcement: run it now with `headers` (int64 [N, h]), or fail it with `error`.

    `number` tells it from all other decisions to run, and `batch` is the same for those that were taken together: both
    alike on all ranks. The decisions of one batch come from one `poll`, in one order on all ranks. A decision to fail
    has neither (0); on a rank alone, batches are what was announced together, and there are no numbers.
    """
    op: Op
    headers: Optional[np.ndarray]
    error: Optional[LaunchError]
    ticket: int
    name: str
    number: int = 0
    batch: int = 0


class Undecided(NamedTuple):
    """An announcement without an answer, and when it was made."""
    ready: Ready
    since: float


class Announcements:
    """The announcements of this rank and the answers to them. Tickets count up from 1.

    Args:
        rank: This rank.
    """

    def __init__(self, rank: int) -> None:
        self._rank = rank
        self._made = 0
        self._undecided: Dict[int, Undecided] = {}  # by tickets, in the order in which they were made
        self._decisions: List[Decision] = []

    @property
    def undecided(self):
        """Whether one has no answer."""
        return bool(self._undecided)

    @property
    def decided(self):
        """Whether `take` has something to give."""
        return bool(self._decisions)

    def oldest(self) -> Undecided:
        """The one without an answer that was made first (there must be one)."""
        return next(iter(self._undecided.values()))

    def take(self) -> List[Decision]:
        """Takes out the decisions that have come."""
        decisions, self._decisions = self._decisions, []
        return decisions

    def add(self, readies: List[Ready], now: float) -> range:
        """Enters what is announced now. Returns its tickets."""
        tickets = self._new_tickets(readies)
        self._undecided.update(zip(tickets, rows(Undecided, readies, itertools.repeat(now))))
        return tickets

    def adopt(self, tickets: List[int], readies: List[Ready], now: float) -> None:
        """Enters what has been announced without this, with these tickets."""
        self._undecided.update(zip(tickets, rows(Undecided, readies, itertools.repeat(now))))

    def add_refused(self, readies: List[Ready], error: LaunchError) -> range:
        """Enters announcements that fail at once. Returns their tickets."""
        tickets = self._new_tickets(readies)
        self._decisions += [Decision(ready.op, None, error, ticket, ready.name)
                            for ticket, ready in zip(tickets, readies)]
        return tickets

    def add_alone(self, readies: List[Ready]) -> range:
        """Enters announcements of a rank alone, which run at once. Returns their tickets."""
        tickets = self._new_tickets(readies)
        for ticket, ready in zip(tickets, readies):
            headers = None if ready.error else np.frombuffer(header_bytes(ready.header), np.int64).reshape(1, -1)
            self._decisions.append(Decision(ready.op, headers, ready.error, ticket, ready.name, 0,
                                            0 if ready.error else tickets[0]))
        return tickets

    def run(self, word: Run) -> List[Decision]:
        """Takes the leader's word on ops to run. Returns the decisions."""
        decisions, number = [], word.number
        for ticket, headers in zip(word.tickets_of(self._rank), word.headers_of_ops()):
            ready = self._answered(ticket).ready
            decisions.append(Decision(ready.op, headers, None, ticket, ready.name, number, word.number))
            number += 1
        self._decisions += decisions
        return decisions

    def refuse(self, word: Any) -> None:
        """Takes the leader's word (messages.Refuse) on an op that fails on all ranks."""
        ticket = word.tickets[self._rank]
        self._fail(ticket, self._answered(ticket), word.error)

    def cancel(self, word: Any) -> None:
        """Takes the leader's word (messages.Cancel) on announcements of this rank that fail, if they still wait."""
        for ticket in word.tickets:
            undecided = self._undecided.pop(ticket, None)
            if undecided is not None:
                self._fail(ticket, undecided, word.error)

    def fail_all(self, error: LaunchError) -> None:
        """Fails all that have no answer."""
        undecided, self._undecided = self._undecided, {}
        for ticket, one in undecided.items():
            self._fail(ticket, one, error)

    def _new_tickets(self, readies):
        first = self._made + 1
        self._made += len(readies)
        return range(first, first + len(readies))

    def _answered(self, ticket):
        undecided = self._undecided.pop(ticket, None)
        if undecided is None:
            raise LaunchError(INTERNAL, "announcement {} was decided, but there is none here".format(ticket))
        return undecided

    def _fail(self, ticket, undecided, error):
        self._decisions.append(Decision(undecided.ready.op, None, error, ticket, undecided.ready.name))

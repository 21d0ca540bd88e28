"""What one rank has announced: the announcement, its answer, and the book of those still without one."""
from typing import Any, Dict, NamedTuple, Optional, Tuple

import numpy as np

from .errors import LaunchError
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
        rivals: Numbers of this rank's other sessions, begun earlier, whose graph has the op as well.
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


class Decision(NamedTuple):
    """The answer to one announcement: run it now with `headers` (int64 [N, h]), or fail it with `error`.

    `number` tells it from all other decisions to run, alike on all ranks.
    """
    op: Op
    headers: Optional[np.ndarray]
    error: Optional[LaunchError]
    ticket: int
    name: str
    number: int = 0


class Undecided(NamedTuple):
    """An announcement without an answer, and when it was made."""
    op: Op
    name: str
    ticket: int
    since: float

    def answer(self, headers, error, number=0):
        """The Decision on it."""
        return Decision(self.op, headers, error, self.ticket, self.name, number)


class Book:
    """The announcements of this rank without an answer, in the order in which they were made."""

    def __init__(self):
        self._undecided: Dict[int, Undecided] = {}

    def __bool__(self):
        return bool(self._undecided)

    def add(self, undecided):
        """Enters an Undecided."""
        self._undecided[undecided.ticket] = undecided

    def take(self, ticket):
        """Takes out the announcement with this ticket; None where it has been answered."""
        return self._undecided.pop(ticket, None)

    def take_all(self):
        """Takes out all: a list, in the order they were made."""
        everything = list(self._undecided.values())
        self._undecided.clear()
        return everything

    def oldest(self):
        """The one made first (there must be one)."""
        return next(iter(self._undecided.values()))

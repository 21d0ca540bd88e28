"""What one rank has announced: the announcement, its answer, and the book of those still without one."""
import collections
from typing import NamedTuple, Optional

import numpy as np

from .errors import INTERNAL, LaunchError
from .messages import OpKey


class Ready(NamedTuple):
    """An op that is ready on this rank.

    Attributes:
        op: (graph, index), equal on all ranks.
        name: For messages.
        plan_length: Number of ops in this rank's plan of the graph.
        plan_digest: Its 64 bit hash, unsigned.
        plan_text: The plan, one op a line, shown where ranks differ.
        header: int64 array, as long on every rank; all ranks get all headers.
        error: None, or why the op cannot run on this rank: then it fails on all.
        step: Number of this rank's session run that the op belongs to; 0 = unknown. When an op is refused, what the
            same step has announced besides is given up, so that it does not meet the next step of another rank.
    """
    op: OpKey
    name: str
    plan_length: int
    plan_digest: int
    plan_text: str
    header: Optional[np.ndarray]
    error: Optional[LaunchError] = None
    step: int = 0


class Decision(NamedTuple):
    """The answer to one announcement: run it now with `headers` (int64 [N, h]), or fail it with `error`."""
    op: OpKey
    headers: Optional[np.ndarray]
    error: Optional[LaunchError]
    ticket: int
    name: str


class Undecided(NamedTuple):
    """An announcement without an answer, and when it was made."""
    op: OpKey
    name: str
    ticket: int
    since: float

    def answer(self, headers, error):
        """The Decision on it."""
        return Decision(self.op, headers, error, self.ticket, self.name)


class Book:
    """The announcements of this rank without an answer; for each op the oldest is answered first."""

    def __init__(self):
        self._queues = {}

    def __bool__(self):
        return bool(self._queues)

    def add(self, undecided):
        """Enters an Undecided."""
        self._queues.setdefault(undecided.op, collections.deque()).append(undecided)

    def take(self, op):
        """Takes out the oldest announcement of `op`. Raises LaunchError INTERNAL where there is none."""
        queue = self._queues.get(op)
        if queue is None:
            raise LaunchError(INTERNAL, "op {} was decided, but is not announced here".format(op))
        undecided = queue.popleft()
        if not queue:
            del self._queues[op]
        return undecided

    def take_ticket(self, ticket):
        """Takes out the announcement with this ticket; None where it has been answered."""
        for op, queue in self._queues.items():
            for undecided in queue:
                if undecided.ticket == ticket:
                    queue.remove(undecided)
                    if not queue:
                        del self._queues[op]
                    return undecided
        return None

    def take_all(self):
        """Takes out all: a list, in the order they were made."""
        everything = sorted((entry for queue in self._queues.values() for entry in queue), key=lambda u: u.ticket)
        self._queues.clear()
        return everything

    def oldest(self):
        """The one made first (there must be one)."""
        return min((queue[0] for queue in self._queues.values()), key=lambda undecided: undecided.ticket)

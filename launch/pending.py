"""One op's run for which some ranks are ready: what it is known by, and which announcements wait."""
import collections
from typing import Deque, List, NamedTuple, Tuple

from .messages import Announce, Instance


class Key(NamedTuple):
    """What is paired: an op's run in a session of `rank`, 0 or, as long as it is not bound, another."""
    rank: int
    context: int
    index: int
    digest: int
    instance: Instance

    @property
    def run(self):
        """The part that is equal on all ranks."""
        return self[2:]

    def may_be(self, other):
        """Whether both may be one run, though in kinds of session.run that differ."""
        return self.signed(0).run == other.signed(0).run and self.instance.may_meet(other.instance)

    def signed(self, signature):
        """The same, as part of another kind of session.run."""
        return self._replace(instance=self.instance._replace(signature=signature))


class Pending:
    """The undecided announcements of one op's run: for each rank those not yet paired, oldest first."""

    __slots__ = ("key", "name", "queues", "ready", "since", "warned")

    def __init__(self, key: Key, name: str, size: int) -> None:
        self.key, self.name = key, name
        self.queues: List[Deque[Tuple[Announce, float]]] = [collections.deque() for _ in range(size)]
        self.restart()

    def restart(self):
        """Recounts after announcements were put in or taken out."""
        heads = [queue[0][1] for queue in self.queues if queue]
        self.ready = len(heads)
        self.since = min(heads) if heads else 0.0
        self.warned = 0

    def waiting(self):
        """Ranks that have announced it."""
        return [rank for rank, queue in enumerate(self.queues) if queue]

    def missing(self):
        """Ranks that have not."""
        return [rank for rank, queue in enumerate(self.queues) if not queue]

    @property
    def renamed(self):
        """Whether what waits was announced as part of another kind of session.run than its key's."""
        own = self.key.instance.signature
        return any(message.instance.signature != own for queue in self.queues for message, _ in queue)

"""What rank 0's leader has beside it: C++ that decides bundles which have met before (groups/meeting.h of graph_ops).

It decides only while the leader `is idle`, and hands all that waits there to the leader before anything else; what it
must know besides, the leader tells it here.
"""
from typing import Optional, Sequence, Tuple

FIRST = 1 << 40  # numbers of decisions and tickets from here on are those of C++


class Lane:
    """A leader without such. C++'s is in graph_ops/bridge/lane_ranks.py."""

    def agree(self, contexts: Sequence[int], signatures: Sequence[int]) -> None:
        """Something has been decided of these sessions and kinds of session.run, [N] each: they belong together."""

    def disagree(self) -> None:
        """Sessions, or kinds of session.run, may belong together in another way from now on."""

    def give_up(self, rank: int, step: int) -> None:
        """A step of a rank has been given up: what it announces is the leader's."""

    def undo(self, number: int) -> Tuple[Optional[str], Sequence[int]]:
        """As `batches.Decided.undo`, of its own decisions."""
        return None, ()

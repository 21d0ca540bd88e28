"""What a rank does by itself when rank 0, which orders the exchanges, gives no answer."""
from . import left_alone
from .errors import DEADLINE_EXCEEDED, LaunchError
from .hosts import named, rank_list


class LeaderWatch:
    """Looks at the oldest announcement without an answer.

    Args:
        rank: This rank, not 0.
        stall, abort: Seconds after which to warn, and to fail, or None. Rank 0 itself warns and fails a little sooner.
        way: The ranks by way of which this one talks with rank 0.
    """

    def __init__(self, rank, stall, abort, way=()):
        self._rank, self._stall, self._abort, self._way = rank, stall, abort, way
        self._warned_at = None

    def warned(self, now):
        """A warning has been shown: the next is due as long after as the first."""
        self._warned_at = now

    def judge(self, oldest, left_at, now):
        """What is to be done about the oldest announcement without an answer.

        Args:
            oldest: An Undecided.
            left_at: When rank 0 said that it left, or None.
            now: The clock, seconds.

        Returns:
            (error, warning): the LaunchError with which the job fails; a text; None each where there is none.
        """
        waited = now - oldest.since
        if left_at is not None:
            return left_alone.error(
                oldest.ready.name, oldest.ready.op, [self._rank], [0], now - max(left_at, oldest.since)), None
        text = "op '{}' has waited {:.0f} s and {}, which orders the exchanges, does not answer{}.".format(
            oldest.ready.name, waited, named(0), " by way of " + rank_list(self._way) if self._way else "")
        if self._abort is not None and waited >= self._abort + max(2.0, 0.1 * self._abort):
            return LaunchError(DEADLINE_EXCEEDED, "{}: {} The limit is SOK1X_ABORT_SECONDS={:g}.".format(
                named(self._rank), text, self._abort), 0), None
        if self._stall is not None:
            since = oldest.since if self._warned_at is None else max(oldest.since, self._warned_at)
            if now - since >= self._stall + max(1.0, 0.1 * self._stall):
                return None, text + (
                    " One of them may be" if self._way else " It may be") + " busy in a long operation, or stopped."
        return None, None

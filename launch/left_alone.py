"""An op that waits for ranks that have left: after a moment it has really been left alone, and the job fails."""
from .errors import INTERNAL, LaunchError, same_steps
from .hosts import rank_list

# Ranks end within a moment of each other.
_SECONDS = 1.0


def error(name, op, waiting, gone, seconds):
    """The error with which the job fails.

    Args:
        name: The op's name.
        op: As for `same_steps`.
        waiting: The ranks that wait for it.
        gone: The ranks that have left.
        seconds: For how long both has been so.

    Returns:
        A LaunchError, or None: it has not been long enough.
    """
    if seconds < _SECONDS:
        return None
    return LaunchError(INTERNAL, (
        "op '{}' waits for {} that left: the program has ended there, or MPI.Finalize() or hvd.shutdown() was "
        "called, while {} went on. {}").format(
            name, rank_list(gone), rank_list(waiting), same_steps(op)), min(gone))


class LeftRanks:
    """The ranks that have left, as rank 0 knows them; `rank in` it, `len` of it."""

    def __init__(self):
        self._ranks, self._at = set(), None

    def __contains__(self, rank):
        return rank in self._ranks

    def __len__(self):
        return len(self._ranks)

    def add(self, rank, now):
        """A rank leaves. now: the clock, seconds."""
        self._ranks.add(rank)
        self._at = now

    def judge(self, pending, now):
        """The LaunchError with which the job fails, or None.

        Args:
            pending: The undecided ops (pending.py), one at least.
            now: The clock, seconds.
        """
        if not self._ranks:
            return None
        op = min(pending, key=lambda op: op.since)
        return error(op.name, op.key, op.waiting(), self._ranks, now - max(self._at, op.since))

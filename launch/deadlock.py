"""Whether a job in which every rank waits can still go on.

That every rank waits for an op which another has not announced proves nothing: a rank may be busy with what comes
before that op, in another branch of its graph or on another thread. So rank 0 asks, and each rank looks at itself
(stillness.py). A job in which nothing has moved on any rank for some seconds ends.
"""
from .messages import Ask

_ASK_SECONDS = 0.25


class DeadlockWatch:
    """The leader's questions and the ranks' answers.

    Args:
        size: Number of ranks.
        tell_all: Function (word): tells every rank.
    """

    def __init__(self, size, tell_all):
        self._size, self._tell_all = size, tell_all
        self._serial = 0
        self._asked_at = None
        self._still_since = {}

    def changed(self):
        """Something has moved: what has been answered counts no more."""
        if self._asked_at is not None:
            self._asked_at = None
            self._serial += 1
            self._still_since.clear()

    def still_seconds(self, now):
        """Asks all ranks, now and then; returns for how long nothing has moved on any of them (float)."""
        if self._asked_at is None or now - self._asked_at >= _ASK_SECONDS:
            self._asked_at = now
            self._tell_all(Ask(self._serial))
        if len(self._still_since) < self._size:
            return 0.0
        return now - max(self._still_since.values())

    def answered(self, rank, answer, now):
        """Takes a rank's Answer."""
        if answer.serial == self._serial and self._asked_at is not None:
            if answer.still:
                self._still_since.setdefault(rank, now)
            else:
                self._still_since.pop(rank, None)

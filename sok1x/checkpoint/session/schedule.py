"""When to save: after the same steps on all ranks, or they would wait for each other in different places."""
import time
from typing import Any, Callable, Optional

_SECONDS_BETWEEN_TALKS = 1.0


class Schedule:
    """Every so many steps, which each rank knows by itself; or every so many seconds, which is rank 0's to say.

    For the latter ranks talk now and then, after steps that they agreed on the time before.

    Args:
        save_secs, save_steps: one of them.
        exchange: gives this rank's value to all and returns the values of all, of a session.
    """

    def __init__(self, save_secs: Optional[float], save_steps: Optional[int], exchange: Callable[..., Any]) -> None:
        self._save_secs, self._save_steps, self._exchange = save_secs, save_steps, exchange
        self._due = 0           # the global step at which to look again
        self._seen = 0          # the global step, as runs have shown it,
        self._stride = 0        # and the most that one of them took it on
        self._talked = self._saved_at = 0.0
        self._steps_between_talks = 1

    def started(self, step: int) -> None:
        """The session is ready at `step`: counting begins."""
        self._seen, self._talked = step, time.monotonic()
        self.saved(step)

    def saved(self, step: int) -> None:
        """A checkpoint of `step` has been saved."""
        self._saved_at = time.monotonic()
        self._due = step + (self._save_steps or self._steps_between_talks)

    def may_be_due(self, seen: int) -> bool:
        """Whether it is worth reading the global step, by its value that a run has shown: before or after its step.

        Which of the two is chance, and differs between ranks; so the answer leaves room for a run and one more.
        """
        # Before the second run nothing is known of what a run adds.
        known = self._stride > 0
        self._stride, self._seen = max(self._stride, seen - self._seen), max(self._seen, seen)
        return not known or seen + 2 * self._stride >= self._due

    def is_due(self, session: Any, step: int) -> bool:
        """Whether to save now; `step` is the global step itself, equal on all ranks."""
        if step < self._due:
            return False
        if self._save_steps:
            return True
        now = time.monotonic()
        a_second = max(1, int(self._steps_between_talks * _SECONDS_BETWEEN_TALKS / max(now - self._talked, 1e-6)))
        self._talked = now
        due, self._steps_between_talks = self._exchange(session, [
            now >= self._saved_at + (self._save_secs or 0), min(a_second, 2 * self._steps_between_talks)])[0]
        self._due = step + self._steps_between_talks
        return bool(due)

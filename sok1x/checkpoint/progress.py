"""Says on stderr, now and then, how far long work has come."""
import sys
import time

_QUIET = 2.0   # seconds after the first bytes, so that short work says nothing
_PAUSE = 5.0   # seconds between words


class Progress:
    """A count of bytes, which is called with those that were just done.

    Args:
        what: What is done to the bytes, such as "verified".
        total: All bytes.
    """

    def __init__(self, what: str, total: int) -> None:
        self._what, self._total, self._done = what, total, 0
        self._next = 0.0

    def __call__(self, count: int) -> None:
        """Counts bytes, and prints where it is time to."""
        now = time.monotonic()
        if not self._done:
            self._next = now + _QUIET
        self._done += count
        if now >= self._next:
            self._next = now + _PAUSE
            print("{} {} of {}".format(self._what, size(self._done), size(self._total)), file=sys.stderr, flush=True)


def size(count: int) -> str:
    """Bytes as people read them: 1536 -> '1.5 KB'."""
    value = float(count)
    for unit in ("bytes", "KB", "MB", "GB", "TB"):
        if value < 1024 or unit == "TB":
            break
        value /= 1024
    return "{:,.{}f} {}".format(value, 0 if unit == "bytes" else 1, unit)

"""A stretch of a file that is written from its beginning to its end."""
import contextlib
import os
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, Optional

from sok1x.checkpoint import errors

# After so much the disk is sent what the system has taken so far, beside what follows: else it is idle until the end.
_SYNC_BYTES = 64 << 20
_syncs = ThreadPoolExecutor(1, "sok1x-sync")


def write_at(fd: int, data: bytes, offset: int) -> None:
    """Writes all of the data at a place: the system may take some of it only. Raises OSError."""
    left = memoryview(data)
    while len(left):
        done = os.pwrite(fd, left, offset)
        left, offset = left[done:], offset + done


class StreamWriter:
    """Writes to a file that is open.

    Args:
        fd: the file's number, which is closed in the end.
        path, wanted: for errors: its path, and its bytes in all.
        offset: where it begins to write.

    Raises:
        CheckpointError: the system refuses; NoSpaceError where no space is left. Of every method but `close`.
    """

    def __init__(self, fd: int, path: str, wanted: int, offset: int = 0) -> None:
        self._fd, self._path, self._wanted = fd, path, wanted
        self._unsynced = 0
        self._sync: Optional["Future[None]"] = None
        with self._refusals():
            os.lseek(fd, offset, os.SEEK_SET)

    def put(self, data: Any) -> None:
        """Writes all bytes of a buffer, behind those before."""
        left = memoryview(data).cast("B")
        with self._refusals():
            while len(left):
                done = os.write(self._fd, left)
                left, self._unsynced = left[done:], self._unsynced + done
            if self._unsynced >= _SYNC_BYTES and (self._sync is None or self._sync.done()):
                if self._sync is not None:
                    self._sync.result()
                self._unsynced, self._sync = 0, _syncs.submit(os.fdatasync, self._fd)

    def finish(self, first: bytes = b"") -> None:
        """Writes the file's first bytes, if any are given, waits until the disk has all, and closes the file."""
        with self._refusals():
            if first:
                write_at(self._fd, first, 0)
            if self._sync is not None:
                self._sync.result()  # an error that it has met is told once, and so not by the next
            os.fsync(self._fd)
            fd, self._fd = self._fd, -1
            os.close(fd)

    def close(self) -> None:
        """Closes the file as it is; does nothing where it is closed."""
        if self._sync is not None:
            wait([self._sync])
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    @contextlib.contextmanager
    def _refusals(self) -> Any:
        try:
            yield
        except OSError as error:
            raise errors.of_write(error, self._path, self._wanted) from None

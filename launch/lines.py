"""Lines on stderr, each written in one piece because all ranks write to one terminal."""
import os
import select
import stat
import time

_PIECE = 4096      # what a pipe takes at once, or not at all: PIPE_BUF
_PATIENCE = 1.0    # seconds that a reader of a pipe may take


def print_line(text):
    """Writes `text` and a newline to stderr, past Python's buffers and their locks: any thread, at any time.

    Where that is a pipe, and nobody reads what has been written, for a second, the rest is left out: what runs here
    must go on, or end. So it is where stderr takes nothing, being closed, or on a full disk.
    """
    try:
        _write(memoryview((text + "\n").encode("utf-8", "replace")))
    except OSError:
        return


def _write(left):
    if not stat.S_ISFIFO(os.fstat(2).st_mode):
        os.write(2, left)
        return
    end = time.monotonic() + _PATIENCE
    ready = select.poll()
    ready.register(2, select.POLLOUT)
    while left and ready.poll(max(0, end - time.monotonic()) * 1000):  # one without a reader is ready, and an error
        left = left[os.write(2, left[:_PIECE]):]

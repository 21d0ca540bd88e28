"""Opening and reading files of a checkpoint, without following links and without waiting for pipes."""
import os
import stat
from typing import Tuple

import crc32c
import numpy as np

from sok1x.checkpoint import errors
from sok1x.checkpoint.errors import CheckpointError, DamagedError

_CHUNK = 4 << 20


def open_regular(path: str, what: str) -> Tuple[int, int]:
    """Opens a regular file to read; its last component may not be a link.

    Returns:
        (file descriptor, bytes of the file).

    Raises:
        CheckpointError: It is missing, no regular file, or cannot be read.
    """
    try:
        # O_NONBLOCK: to open a pipe would wait for its writer.
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        raise errors.of_read(error, path, what) from None
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode):
        os.close(fd)
        raise DamagedError("{} is not a regular file: {}.".format(path, what))
    return fd, status.st_size


def read_into(fd: int, offset: int, out: memoryview) -> bool:
    """Fills `out` from the bytes at `offset`; False where the file ends before."""
    while len(out):
        got = os.preadv(fd, [out], offset)
        if got == 0:
            return False
        out, offset = out[got:], offset + got
    return True


def read_bounded(path: str, what: str, most: int) -> bytes:
    """All bytes of a file that may have at most `most`. Raises CheckpointError."""
    fd, size = open_regular(path, what)
    try:
        if size > most:
            raise DamagedError("{} is too large: {} bytes, and at most {} can be: {}.".format(path, size, most, what))
        out = bytearray(size)
        if not read_into(fd, 0, memoryview(out)):
            raise DamagedError("{} was cut short while it was read: {}.".format(path, what))
        return bytes(out)
    except OSError as error:
        raise CheckpointError("Cannot read {} ({}): {}.".format(path, what, error.strerror)) from None
    finally:
        os.close(fd)


def checksum(path: str, what: str) -> Tuple[int, int]:
    """(bytes, crc32c of all of them) of a file. Raises CheckpointError."""
    fd, size = open_regular(path, what)
    try:
        total, offset = 0, 0
        buffer = np.empty(min(_CHUNK, max(size, 1)), np.uint8)
        while offset < size:
            piece = buffer[:min(_CHUNK, size - offset)]
            if not read_into(fd, offset, memoryview(piece)):
                raise DamagedError("{} was cut short while it was read: {}.".format(path, what))
            total = crc32c.crc32c(piece, total)
            offset += len(piece)
        return size, total
    except OSError as error:
        raise errors.of_read(error, path, what) from None
    finally:
        os.close(fd)

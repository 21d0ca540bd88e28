"""Writes one shard file (the format is in shard_header.py), from arrays as they come, without copies."""
import contextlib
import dataclasses
import os
import struct
from typing import Dict, List

import crc32c
import numpy as np

from sok1x.checkpoint import errors
from sok1x.checkpoint.files import shard_header
from sok1x.checkpoint.files.shard_header import Header
from sok1x.checkpoint.files.stream_writer import StreamWriter

# So much is summed and then written at a time: the system copies it while it is in the processor's cache still. On two
# busy cores that took less time than a second thread for the sums.
_PIECE = 1 << 20


class ShardFileWriter:
    """One file that is being written.

    Args:
        path: The file, which must not be there yet.
        header: What it will hold; `count` rows are expected. `key_range` is found while keys are written.

    Raises:
        CheckpointError: The system refuses; NoSpaceError where no space is left. Of every method.
    """

    def __init__(self, path: str, header: Header) -> None:
        self._path, self._header = path, header
        self._row = np.dtype((np.dtype(header.dtype), header.row_shape))
        self._written = 0
        self._sums: List[int] = []
        block = shard_header.encode(header)
        self._wanted = len(block) + header.payload_bytes + header.trailer_bytes
        try:
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
        except OSError as error:
            raise errors.of_write(error, path, self._wanted) from None
        self._stream = StreamWriter(fd, path, self._wanted)
        try:
            # Room for the header, which is written when all is known.
            self._stream.put(bytes(len(block)))
        except BaseException:
            self.abort()
            raise

    @property
    def missing(self) -> int:
        """Rows that are still expected."""
        return self._header.count - self._written

    def write(self, rows: np.ndarray) -> None:
        """Appends rows, [n, …] of the header's dtype and row_shape; their memory is read before this returns."""
        if rows.dtype != self._row.base or rows.shape[1:] != self._row.shape or len(rows) > self.missing:
            raise ValueError("{} takes {} more rows of {} {}, got {} of {} {}".format(
                self._path, self.missing, self._header.dtype, list(self._header.row_shape), len(rows), rows.dtype,
                list(rows.shape[1:])))
        rows = np.ascontiguousarray(rows)
        step = max(1, _PIECE // self._header.row_bytes)
        for first in range(0, len(rows), step):
            piece = rows[first:first + step]
            self._add(piece)
            self._stream.put(piece)
            self._written += len(piece)

    def close(self) -> Dict[str, int]:
        """Completes the file and waits until the disk has it. Returns {"bytes": …, "crc32c": …} for the manifest."""
        if self.missing:
            raise ValueError("{} lacks {} of {} rows".format(self._path, self.missing, self._header.count))
        trailer = np.array(self._sums, "<u4").tobytes()
        trailer += struct.pack("<I", crc32c.crc32c(trailer))
        block = shard_header.encode(self._header)
        self._stream.put(trailer)
        self._stream.finish(block)
        return {"bytes": self._wanted, "crc32c": shard_header.file_checksum(block, trailer)}

    def abort(self) -> None:
        """Closes and removes the file; after `close` or `abort`, and after a failure, only what is left to do."""
        self._stream.close()
        with contextlib.suppress(OSError):
            os.unlink(self._path)

    def _add(self, rows: np.ndarray) -> None:
        """Takes rows into the checksums of their blocks, and keys into the range of keys."""
        block_rows = self._header.block_rows
        begin, first = 0, self._written
        while begin < len(rows):
            inside = (first + begin) % block_rows
            end = min(len(rows), begin + block_rows - inside)
            before = self._sums.pop() if inside else 0
            self._sums.append(crc32c.crc32c(rows[begin:end], before))
            begin = end
        if self._header.part == "keys":
            known = self._header.key_range or (2 ** 63, -2 ** 63)
            self._header = dataclasses.replace(
                self._header, key_range=(min(known[0], int(rows.min())), max(known[1], int(rows.max()))))

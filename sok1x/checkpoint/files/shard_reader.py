"""Reads one shard file (the format is in shard_header.py). Nothing of it is believed before it was checked."""
import os
from typing import Any, Optional, Tuple

import crc32c
import numpy as np

from sok1x.checkpoint import errors
from sok1x.checkpoint.errors import DamagedError
from sok1x.checkpoint.files import shard_header
from sok1x.checkpoint.files.open_file import open_regular, read_into


class ShardFileReader:
    """An open shard file, its header and trailer checked.

    Args:
        path: The file.
        table: The table that it should hold, for messages.

    Attributes:
        header: What the file says of itself.
        bytes: The file's length.
        crc32c: The checksum that the manifest should have of it.

    Raises:
        CheckpointError: It cannot be read, or is not sound (DamagedError), or is of another format.
    """

    def __init__(self, path: str, table: str) -> None:
        self.path = path
        self.what = "{} (table '{}')".format(path, table)
        self._fd, self.bytes = open_regular(path, "table '{}'".format(table))
        try:
            self._load()
        except BaseException:
            self.close()
            raise
        self._kept: Tuple[int, Optional[np.ndarray]] = (-1, None)

    def _load(self) -> None:
        if self.bytes < 16:
            raise DamagedError("{} is cut short: it has {} bytes.".format(self.what, self.bytes))
        length = shard_header.block_length(bytes(self._bytes(0, 16)), self.what)
        if length > self.bytes:
            raise DamagedError("{} is cut short: its header takes {} bytes, and it has {}.".format(
                self.what, length, self.bytes))
        block = bytes(self._bytes(0, length))
        self.header = shard_header.decode(block, self.what)
        self._payload = length
        header = self.header
        expected = length + header.payload_bytes + header.trailer_bytes
        # The file is really as long as what is allocated below.
        if self.bytes != expected:
            raise DamagedError("{} is {}: it has {} bytes, and {} rows of {} bytes make {}.".format(
                self.what, "cut short" if self.bytes < expected else "damaged", self.bytes, header.count,
                header.row_bytes, expected))
        trailer = self._bytes(length + header.payload_bytes, header.trailer_bytes)
        sums = trailer.view("<u4")
        if sums[-1] != crc32c.crc32c(trailer[:-4]):
            raise DamagedError("{} is damaged: the checksum of its trailer does not match.".format(self.what))
        self._sums = sums[:-1]
        self.crc32c = shard_header.file_checksum(block, trailer)

    def expect(self, **fields: Any) -> None:
        """Raises DamagedError unless the header has these values."""
        for name, value in fields.items():
            found = getattr(self.header, name)
            if found != value:
                raise DamagedError("{} does not belong here: its header says {} {!a:.80}, and {!a:.80} is "
                                   "expected{}.".format(self.what, name, found, value, (
                                       ": it is of another save" if name == "token" else "")))

    def expect_sums(self, size: int, checksum: int) -> None:
        """Raises DamagedError unless length and checksum are those that the manifest has."""
        if (self.bytes, self.crc32c) != (size, checksum):
            raise DamagedError("{} is not the file that was saved: it has {} bytes with checksum {:08x}, and the "
                               "manifest says {} bytes with {:08x}.".format(
                                   self.what, self.bytes, self.crc32c, size, checksum))

    def read(self, first: int, count: int) -> np.ndarray:
        """Rows first … first+count-1, [count, …]; every block that is touched is checked. Raises DamagedError."""
        header = self.header
        if first < 0 or count < 0 or first + count > header.count:
            raise ValueError("{} has rows 0 to {}, asked for {} from {}".format(
                self.what, header.count - 1, count, first))
        out = np.empty((count,) + header.row_shape, header.dtype)
        done = 0
        while done < count:
            block, inside = divmod(first + done, header.block_rows)
            n = min(header.rows_of_block(block) - inside, count - done)
            if n == header.rows_of_block(block):
                self._read_block(block, out[done:done + n])
            else:
                out[done:done + n] = self._block(block)[inside:inside + n]
            done += n
        return out

    def close(self) -> None:
        """Closes the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> "ShardFileReader":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def _block(self, block: int) -> np.ndarray:
        """One block, the last one kept: parts with narrow rows are read in pieces of a block."""
        if self._kept[0] != block:
            rows = np.empty((self.header.rows_of_block(block),) + self.header.row_shape, self.header.dtype)
            self._read_block(block, rows)
            self._kept = (block, rows)
        kept = self._kept[1]
        assert kept is not None
        return kept

    def _read_block(self, block: int, out: np.ndarray) -> None:
        header = self.header
        self._fill(self._payload + block * header.block_rows * header.row_bytes, out)
        if crc32c.crc32c(out) != self._sums[block]:
            first = block * header.block_rows
            raise DamagedError("{} is damaged: the checksum of block {} (rows {} to {}) does not match.".format(
                self.what, block, first, first + len(out) - 1))

    def _bytes(self, offset: int, count: int) -> np.ndarray:
        out = np.empty(count, np.uint8)
        self._fill(offset, out)
        return out

    def _fill(self, offset: int, out: np.ndarray) -> None:
        try:
            whole = read_into(self._fd, offset, memoryview(out).cast("B"))
        except OSError as error:
            raise errors.of_read(error, self.path, self.what) from None
        if not whole:
            raise DamagedError("{} was cut short while it was read.".format(self.what))

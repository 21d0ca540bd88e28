"""An open checkpoint: its manifest, and its shard files, each checked against the manifest when it is opened."""
import os
from typing import Callable, Iterator, Optional, Tuple

import numpy as np

from sok1x.checkpoint.errors import DamagedError, NotFoundError
from sok1x.checkpoint.files import manifest, shard_names
from sok1x.checkpoint.files.manifest import Table
from sok1x.checkpoint.files.open_file import checksum
from sok1x.checkpoint.files.shard_reader import ShardFileReader

CHUNK_BYTES = 8 << 20

Progress = Callable[[int], None]


def no_progress(_: int) -> None:
    """What is told of bytes that were read where nobody asks."""


class Checkpoint:
    """A complete checkpoint in a folder.

    Args:
        folder: The folder of one step.

    Attributes:
        folder, manifest: The folder, and the manifest in it.

    Raises:
        CheckpointError: The manifest is missing, damaged or of another format.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.manifest = manifest.read(folder)

    def table(self, name: str) -> Table:
        """A table's entry in the manifest. Raises NotFoundError."""
        if name not in self.manifest.tables:
            raise NotFoundError("There is no table '{}' in {}; it has {}.".format(
                name, self.folder, ", ".join(sorted(self.manifest.tables)) or "none"))
        return self.manifest.tables[name]

    def path(self, table: str, part: str, rank: int) -> str:
        """The file that holds a part of a table on a rank."""
        return os.path.join(self.folder, self.manifest.shard_file(table, part, rank))

    def open(self, table: str, part: str, rank: int) -> ShardFileReader:
        """Opens a shard file; header, trailer, length and checksum are those that the manifest expects, or it raises.

        Raises:
            CheckpointError: It is missing, damaged, or belongs to another save, table, part or rank.
        """
        entry = self.manifest.tables[table]
        dtype, row_shape, _ = entry.parts[part]
        reader = ShardFileReader(self.path(table, part, rank), table)
        try:
            reader.expect(token=self.manifest.token, step=self.manifest.step, table=table, part=part, rank=rank,
                          ranks=self.manifest.ranks, dtype=dtype, row_shape=row_shape,
                          count=entry.part_count(part, rank))
            reader.expect_sums(*self.manifest.files[self.manifest.shard_file(table, part, rank)])
        except BaseException:
            reader.close()
            raise
        return reader

    def check_shard(self, table: str, part: str, rank: int, progress: Progress = no_progress,
                    each: Optional[Callable[[np.ndarray], None]] = None) -> None:
        """Reads a shard file to its end, which checks every block; of keys also that they are this rank's.

        Args:
            table, part, rank: Which file.
            progress: Is called with the number of bytes that were read, again and again.
            each: Is called with every chunk of rows.

        Raises:
            CheckpointError: As `open` does, and where a block is damaged.
        """
        with self.open(table, part, rank) as reader:
            for first, rows in chunks_of(reader):
                if part == shard_names.KEYS:
                    self._check_keys(reader, first, rows)
                if each is not None:
                    each(rows)
                progress(rows.nbytes)

    def check_other(self, name: str) -> None:
        """Reads one of TensorFlow's files to its end, and compares length and checksum. Raises CheckpointError."""
        path = os.path.join(self.folder, name)
        found = checksum(path, "a file of TensorFlow's checkpoint of the dense variables")
        if found != tuple(self.manifest.files[name]):
            raise DamagedError(
                "{} (TensorFlow's, of the dense variables) is damaged: it has {} bytes with checksum {:08x}, and the "
                "manifest says {} bytes with {:08x}.".format(path, *found, *self.manifest.files[name]))

    def _check_keys(self, reader: ShardFileReader, first: int, keys: np.ndarray) -> None:
        header = reader.header
        table = self.manifest.tables[header.table]
        may_stray = table.strays is not None and table.strays[header.rank] > 0
        wrong = (table.placement.owners(keys, header.ranks) != header.rank) & (not may_stray)
        if not table.use_hashtable:
            wrong |= keys != table.placement.keys(np.arange(first, first + len(keys)), header.rank, header.ranks)
        assert header.key_range is not None
        wrong |= (keys < header.key_range[0]) | (keys > header.key_range[1])
        if wrong.any():
            row = int(wrong.argmax())
            raise DamagedError("{} is damaged: row {} has key {}, which cannot be there (rank {} of {}, keys {} to "
                               "{}).".format(reader.what, first + row, keys[row], header.rank, header.ranks,
                                             *header.key_range))


def chunks_of(reader: ShardFileReader) -> Iterator[Tuple[int, np.ndarray]]:
    """(first row, rows) of a whole file, in chunks of whole blocks."""
    rows = rows_per_chunk(reader)
    for first in range(0, reader.header.count, rows):
        yield first, reader.read(first, min(rows, reader.header.count - first))


def rows_per_chunk(reader: ShardFileReader) -> int:
    """Rows of about CHUNK_BYTES, in whole blocks."""
    header = reader.header
    return header.block_rows * max(1, CHUNK_BYTES // (header.block_rows * header.row_bytes))

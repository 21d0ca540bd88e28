"""A whole table, of all ranks, as a stream of keys and rows in the order in which it is exported."""
from contextlib import ExitStack
from typing import Iterator, List, Optional, Tuple

import numpy as np

from sok1x.checkpoint import shard_names
from sok1x.checkpoint.checkpoint_files import CHUNK_BYTES, Checkpoint, chunks_of
from sok1x.checkpoint.shard_reader import ShardFileReader


class TableRows:
    """One table of a checkpoint: rank after rank, each in the order of its rows; without a hash table by key.

    Args:
        checkpoint: The open checkpoint.
        name: The table.

    Attributes:
        name, dim, count: Its name, D, and the number of rows of all ranks.

    Raises:
        CheckpointError: There is no such table; of every method: a file is damaged.
    """

    def __init__(self, checkpoint: Checkpoint, name: str) -> None:
        self._checkpoint, self._table, self.name = checkpoint, checkpoint.table(name), name
        self.dim, self.count = self._table.dim, sum(self._table.counts)
        self._ranks = range(checkpoint.manifest.ranks)

    @property
    def bytes(self) -> int:
        """Bytes of all keys and rows."""
        return self.count * (8 + 4 * self.dim)

    def key_range(self) -> Optional[Tuple[int, int]]:
        """The least and the greatest key, or None."""
        ranges = []
        for rank in self._ranks:
            with self._checkpoint.open(self.name, shard_names.KEYS, rank) as reader:
                ranges.append(reader.header.key_range)
        found = [one for one in ranges if one is not None]
        return (min(least for least, _ in found), max(greatest for _, greatest in found)) if found else None

    def keys(self) -> Iterator[np.ndarray]:
        """Chunks of the keys, int64 [n]."""
        if not self._table.use_hashtable:
            step = CHUNK_BYTES // 8
            for first in range(0, self.count, step):
                yield np.arange(first, min(first + step, self.count), dtype=np.int64)
            return
        for rank in self._ranks:
            with self._checkpoint.open(self.name, shard_names.KEYS, rank) as reader:
                for _, keys in chunks_of(reader):
                    yield keys

    def values(self) -> Iterator[np.ndarray]:
        """Chunks of the rows, float32 [n, D], in the order of `keys`."""
        if not self._table.use_hashtable:
            yield from self._interleaved()
            return
        for rank in self._ranks:
            with self._checkpoint.open(self.name, shard_names.ROWS, rank) as reader:
                for _, rows in chunks_of(reader):
                    yield rows

    def _interleaved(self) -> Iterator[np.ndarray]:
        """Key k is row k // N of rank k % N: a chunk of every rank makes a range of keys."""
        with ExitStack() as files:
            readers: List[ShardFileReader] = [
                files.enter_context(self._checkpoint.open(self.name, shard_names.ROWS, rank)) for rank in self._ranks]
            step = max(1, CHUNK_BYTES // (4 * self.dim * len(readers)))
            for first in range(0, self._table.rows, step):
                n = min(step, self._table.rows - first)
                rows = np.empty((n, len(readers), self.dim), np.float32)
                for rank, reader in enumerate(readers):
                    rows[:, rank] = reader.read(first, n)
                yield rows.reshape(-1, self.dim)

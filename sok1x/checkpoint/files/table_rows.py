"""A whole table, of all ranks, as a stream of keys and rows in the order in which it is exported."""
from contextlib import ExitStack
from typing import Iterator, List, Optional, Tuple

import numpy as np

from sok1x.checkpoint.errors import CheckpointError
from sok1x.checkpoint.files import shard_names
from sok1x.checkpoint.files.checkpoint_files import CHUNK_BYTES, Checkpoint, chunks_of
from sok1x.checkpoint.files.shard_reader import ShardFileReader
from sok1x.checkpoint.files.strays import Strays


class TableRows:
    """One table of a checkpoint: rank after rank, each in the order of its rows; without a hash table by key.

    A key that several ranks had, as local lookups leave them, is there once: see strays.py.

    Args:
        checkpoint: The open checkpoint.
        name: The table.

    Attributes:
        name, dim, count: Its name, D, and the number of keys, of which each has a row.

    Raises:
        CheckpointError: There is no such table, or its rows are not float32; of every method: a file is damaged.
    """

    def __init__(self, checkpoint: Checkpoint, name: str) -> None:
        self._checkpoint, self._table, self.name = checkpoint, checkpoint.table(name), name
        self.dim, self.count = self._table.dim, sum(self._table.counts)
        self._ranks = range(checkpoint.manifest.ranks)
        dtype = self._table.parts[shard_names.ROWS].dtype
        if dtype != "float32":
            raise CheckpointError("The rows of table '{}' in {} are {}, and float32 ones can be exported: choose other "
                                  "tables with --table.".format(name, checkpoint.folder, dtype))
        self._strays: Optional[Strays] = None
        if self._table.strays:
            strays = Strays(self._table, checkpoint.manifest.ranks)
            for rank in self._ranks:
                for keys in self._keys_of(rank):
                    strays.add(keys, rank)
            self.count, self._strays = strays.choose(), strays

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
            for keys in self._keys_of(rank):
                yield keys if self._strays is None else keys[self._strays.chosen(keys, rank)]

    def _keys_of(self, rank: int) -> Iterator[np.ndarray]:
        with self._checkpoint.open(self.name, shard_names.KEYS, rank) as reader:
            for _, keys in chunks_of(reader):
                yield keys

    def values(self) -> Iterator[np.ndarray]:
        """Chunks of the rows, float32 [n, D], in the order of `keys`."""
        if not self._table.use_hashtable:
            yield from self._interleaved()
            return
        for rank in self._ranks:
            with self._checkpoint.open(self.name, shard_names.ROWS, rank) as reader, \
                    self._checkpoint.open(self.name, shard_names.KEYS, rank) as keys:
                for first, rows in chunks_of(reader):
                    if self._strays is not None:
                        rows = rows[self._strays.chosen(keys.read(first, len(rows)), rank)]
                    yield rows

    def _interleaved(self) -> Iterator[np.ndarray]:
        """Keys are dealt out over ranks in turn: a chunk of every rank that has rows makes a range of keys."""
        counts, placement = self._table.counts, self._table.placement
        with ExitStack() as files:
            readers: List[ShardFileReader] = [
                files.enter_context(self._checkpoint.open(self.name, shard_names.ROWS, rank)) for rank in self._ranks
                if placement.has_keys(rank)]
            step = max(1, CHUNK_BYTES // (4 * self.dim * len(readers)))
            most = max(counts)
            for first in range(0, most, step):
                n = min(step, most - first)
                rows = np.empty((n, len(readers), self.dim), np.float32)
                for place, reader in enumerate(readers):
                    here = min(n, counts[placement.first + place] - first)  # the last ranks may have one row fewer
                    rows[:here, place] = reader.read(first, here)
                yield rows.reshape(-1, self.dim)[:self.count - first * len(readers)]

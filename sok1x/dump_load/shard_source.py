"""A rank's rows of a dump, for graph_ops/transfer/shard_transfer.py's load op."""
from typing import Any, Dict, Iterator, Tuple

import numpy as np

from sok1x.checkpoint.errors import DamagedError, MismatchError
from sok1x.dump_load.table_files import KEYS, OpenFiles, TableFiles
from sok1x.graph_ops.stores.table import Table
from sok1x.graph_ops.transfer import distinct_keys
from sok1x.graph_ops.transfer.sok_restore import limits

_KEYS_AT_ONCE = 1 << 19
_BUFFER_BYTES = 16 << 20
_INT64_END = 2 ** 63


class ShardSource:
    """Gives a table's rows for this rank, whatever ranks wrote them and wherever rows were then.

    All keys are read and checked before, so that what is wrong with them is known before anything changes.

    Args:
        files: the table's files.
        table: what it is in the model. world: this rank of how many.
        parts: {part: bytes of a row} to be given.

    Attributes:
        total: rows for this rank.
        begun: whether they have been asked for: what the table had is gone then.
        fresh: {part: number} of those that rows without a key begin with; see `shard_transfer.load`.

    Raises:
        DamagedError: a key comes twice. MismatchError: the keys do not fit the table.
    """

    def __init__(self, files: TableFiles, table: Table, world: Any, parts: Dict[str, int]) -> None:
        self._files, self._table, self._world, self._parts = files, table, world, parts
        self._signed = table.hashed and table.key_dtype != "uint32"
        self.total, self.begun = 0, False
        self.fresh: Dict[str, float] = {}
        if table.keys is not None and files.rows != table.keys:
            raise MismatchError("{} has {} rows, and the model's variable '{}' has {}.".format(
                files.keys_path, files.rows, table.name, table.keys))
        self._check_range()
        twice = distinct_keys.repeated(lambda: (keys[own] for _, keys, own in self._pieces()), self.total)
        if twice is not None:
            raise DamagedError("{} is damaged: got key {} twice, expected every key once.".format(
                files.keys_path, twice))
        if self.total > table.most_rows:
            raise MismatchError((
                "{} has {} rows for rank {} of {}, and table '{}' has {} there: give it a {} of at least {}, or load "
                "on more ranks.").format(
                    files.keys_path, self.total, world.rank, world.size, table.name, table.most_rows,
                    "max_capacity" if table.grows else "max_vocabulary_size_per_gpu", self.total))

    def chunks(self) -> Iterator[Tuple[np.ndarray, Dict[str, np.ndarray]]]:
        """Yields (keys int64 [n], {part: array [n, D]}) in the files' order. Raises DamagedError."""
        self.begun = True
        at_once = max(1, min(_KEYS_AT_ONCE, _BUFFER_BYTES // sum(self._parts.values())))
        if not self.total:
            return
        with self._files.open() as files:
            for first, keys, own in self._of(files, at_once):
                if not own.size:
                    continue
                begin, end = int(own[0]), int(own[-1]) + 1
                values = {part: files.read(part, first + begin, end - begin) for part in self._parts}
                if own.size < end - begin:
                    values = {part: rows[own - begin] for part, rows in values.items()}
                yield keys[own], values

    def unused(self) -> None:
        """Of rows without a key the files tell nothing."""

    def _pieces(self) -> Iterator[Tuple[int, np.ndarray, np.ndarray]]:
        with self._files.open(parts=False) as files:
            yield from self._of(files, _KEYS_AT_ONCE)

    def _of(self, files: OpenFiles, at_once: int) -> Iterator[Tuple[int, np.ndarray, np.ndarray]]:
        """Some keys after the others: (place of the first, keys int64 [n], which of them are this rank's)."""
        for first in range(0, self._files.rows, at_once):
            keys = files.read(KEYS, first, min(at_once, self._files.rows - first))
            # Of a localized table that grows sok1x has once written negative keys as uint64.
            if not self._signed and keys.dtype.kind == "u" and keys.dtype.itemsize == 8 and keys.max() >= _INT64_END:
                place = int(keys.argmax())
                raise MismatchError("{} has key {} at place {}, expected keys below 2**63.".format(
                    self._files.keys_path, keys[place], first + place))
            keys = keys.astype(np.int64, copy=False)
            owners = self._table.placement.owners(keys, self._world.size)
            yield first, keys, np.flatnonzero(owners == self._world.rank)

    def _check_range(self) -> None:
        known = limits(self._table, self._world.size)
        for first, keys, own in self._pieces():
            if known is not None:
                least, end, expected = known
                wrong = np.flatnonzero((keys < least) | (keys >= end))
                if wrong.size:
                    raise MismatchError("{} has key {} at place {}, and keys of table '{}' are in {}.".format(
                        self._files.keys_path, keys[wrong[0]], first + wrong[0], self._table.name, expected))
            self.total += own.size

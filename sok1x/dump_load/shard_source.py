"""A rank's rows of a dump, for graph_ops/transfer/shard_transfer.py's load op."""
from typing import Any, Callable, Dict, Iterator, Optional, Sequence, Tuple

import numpy as np

from sok1x.checkpoint.errors import DamagedError, MismatchError
from sok1x.checkpoint.files.shard_names import KEYS
from sok1x.dump_load.table_files import OpenFiles, TableFiles
from sok1x.graph_ops.stores.table import Table
from sok1x.graph_ops.transfer.keyed_files import RankRows

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
        fresh_rows: what these rows themselves begin with, float32 [n, D], where they would not otherwise.

    Raises:
        DamagedError: a key comes twice. MismatchError: the keys do not fit the table.
    """

    def __init__(self, files: TableFiles, table: Table, world: Any, parts: Dict[str, int]) -> None:
        self._files, self._table, self._parts = files, table, parts
        self._signed = table.hashed and table.key_dtype != "uint32"
        self.begun = False
        self.fresh: Dict[str, float] = {}
        self.fresh_rows: Optional[np.ndarray] = None
        if table.keys is not None and files.rows != table.keys:
            raise MismatchError("{} has {} rows, and the model's variable '{}' has {}.".format(
                files.keys_path, files.rows, table.name, table.keys))
        self._rows = RankRows(table, world, files.rows)
        self._rows.count(self._pieces, self._wrong_key)
        self.total = self._rows.total
        twice = self._rows.repeated(self._pieces)
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
        if not self.total:
            return
        with self._files.open() as files:
            yield from self._rows.chunks(self._keys_of(files), lambda first, n: {
                part: files.read(part, first, n) for part in self._parts}, sum(self._parts.values()))

    def unused(self) -> Optional[Sequence[np.ndarray]]:
        """Of rows without a key the files tell nothing: they are what the program has them begin with."""
        return None if self.fresh_rows is None else [self.fresh_rows]

    def _pieces(self) -> Iterator[Tuple[int, np.ndarray, np.ndarray]]:
        with self._files.open(parts=False) as files:
            yield from self._rows.pieces(self._keys_of(files))

    def _keys_of(self, files: OpenFiles) -> Callable[[int, int], np.ndarray]:
        """Reads keys of open files, as int64."""
        def read(first: int, n: int) -> np.ndarray:
            keys = files.read(KEYS, first, n)
            # Of a localized table that grows sok1x has once written negative keys as uint64.
            if not self._signed and keys.dtype.kind == "u" and keys.dtype.itemsize == 8 and keys.max() >= _INT64_END:
                place = int(keys.argmax())
                raise MismatchError("{} has key {} at place {}, expected keys below 2**63.".format(
                    self._files.keys_path, keys[place], first + place))
            return keys.astype(np.int64, copy=False)

        return read

    def _wrong_key(self, key: int, place: int, expected: str) -> MismatchError:
        return MismatchError("{} has key {} at place {}, and keys of table '{}' are in {}.".format(
            self._files.keys_path, key, place, self._table.name, expected))

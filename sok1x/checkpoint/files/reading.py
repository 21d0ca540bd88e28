"""What a table's rows are read from: `TableSource`, the giver of graph_ops/transfer/shard_transfer.py's load op.

Key k belongs to rank k % N, of the N ranks that save and of the N' that load alike. So rank r of N' finds its keys in
the shards p with p % g == r % g, g = gcd(N, N'), and in no other. With N' == N that is its own shard, and rows keep
their numbers. Where one rank has, or had, all rows (`graph_ops.stores.placement`), it reads all shards, or all ranks
read that one; a rank without keys reads none.
"""
import math
import re
from contextlib import ExitStack
from typing import Any, Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from sok1x.checkpoint.errors import MismatchError
from sok1x.checkpoint.files import admission_counts, shard_names
from sok1x.checkpoint.files.checkpoint_files import Checkpoint, Progress, chunks_of, no_progress, rows_per_chunk
from sok1x.checkpoint.files.strays import Strays
from sok1x.cuda_kernels import admission
from sok1x.graph_ops.stores.forgetting import Forgetting
from sok1x.graph_ops.stores.placement import BY_KEY, Placement

_OTHER_OPTIMIZER = (
    " It was saved with another optimizer, or before that had made its slots: build the model so; or write the rows "
    "alone with it (sok.dump) and load them here (sok.load), where this optimizer begins anew.")
_OTHER_NUMBER = (
    " It was saved with such an optimizer, but as another of its program: call compile, or make optimizers, as often "
    "and in the order of that program.")


class Wanted(NamedTuple):
    """What a model has, and a checkpoint must fit.

    `parts` are those to be given besides the keys: {part: (dtype, shape of a row)}. `rows` is V of this rank, the
    largest of a table that `grows`; `keys` and `forgetting` as `graph_ops.stores.table.Table` has them.
    """

    dim: int
    rows: int
    use_hashtable: bool
    key_dtype: str
    parts: Dict[str, Tuple[str, Tuple[int, ...]]]
    placement: Placement = BY_KEY
    keys: Optional[int] = None
    grows: bool = False
    forgetting: Optional[Forgetting] = None

    def remedy(self, rows: int) -> str:
        """What to set where so many rows are too many."""
        what = "the table a max_capacity" if self.grows else "the layer a max_vocabulary_size_per_gpu"
        grow = ", or None to let it grow" if self.use_hashtable and not self.grows else ""
        return "give {} of at least {}{}, or restore on more ranks".format(what, rows, grow)

    def mine(self, keys: np.ndarray, rank: int, ranks: int) -> np.ndarray:
        """Places of a rank's keys."""
        return np.flatnonzero(self.placement.owners(keys, ranks) == rank)

    def rows_for(self, greatest: int, ranks: int) -> int:
        """Without a hash table: the rows that a rank needs whose greatest key is this; -1 is none."""
        return int(self.placement.rows(greatest, ranks)) + 1 if greatest >= 0 else 0


class TableSource:
    """Gives one table's rows for one rank, whatever number of ranks wrote them.

    Memory is a buffer of a few chunks, whatever the shard's size.

    Args:
        checkpoint: The open checkpoint.
        table: The table's name in it.
        rank, ranks: For which rank of how many.
        wanted: What the rows are for. MismatchError is raised at once where dim, dtypes or kinds differ.

    Attributes:
        total: Rows for this rank; None before `check`, unless it reads its own shard.
        same_ranks: Whether it does: as many ranks wrote, and had the same keys.
        saved_as: The table's name in the checkpoint.
        parts: Those that are wanted, as the checkpoint calls them.
    """

    def __init__(self, checkpoint: Checkpoint, table: str, rank: int, ranks: int, wanted: Wanted) -> None:
        self._checkpoint, self._name, self._rank, self._ranks = checkpoint, table, rank, ranks
        self.saved_as = table
        self._table = checkpoint.table(table)
        self._wanted, self.parts = wanted, tuple(wanted.parts)
        self.same_ranks = checkpoint.manifest.ranks == ranks and self._table.placement == wanted.placement
        self.total: Optional[int] = self._table.counts[rank] if self.same_ranks else None
        self.shards: List[int] = [rank] if self.same_ranks and self._table.strays \
            else self._shards(checkpoint.manifest.ranks)
        self._strays: Optional[Strays] = None
        if self._table.strays and not self.same_ranks:
            self._strays = Strays(self._table, checkpoint.manifest.ranks)
        self._compare()

    def _shards(self, saved_ranks: int) -> List[int]:
        """Those in which this rank's keys may be."""
        if not self._wanted.placement.has_keys(self._rank):
            return []
        if self._table.localized is not None and not (self._table.strays and not self.same_ranks):
            return [self._table.localized]
        if self._wanted.placement.rank is not None or (self._table.strays and not self.same_ranks):
            return list(range(saved_ranks))
        step = math.gcd(saved_ranks, self._ranks)
        return list(range(self._rank % step, saved_ranks, step))

    def check(self, progress: Progress = no_progress) -> None:
        """Reads all that this rank needs once, so that what follows cannot fail half-way; and counts its rows.

        Args:
            progress: Is called with the number of bytes that were read, again and again.

        Raises:
            DamagedError: A file is not what was saved.
            MismatchError: The rows do not fit into `wanted.rows` rows.
        """
        total, greatest = 0, -1

        def count(keys: np.ndarray) -> None:
            nonlocal total, greatest
            mine = keys if self.same_ranks else keys[self._wanted.mine(keys, self._rank, self._ranks)]
            if self._strays is not None:
                self._strays.add(mine, shard)
            total += len(mine)
            if len(mine):
                greatest = max(greatest, int(mine.max()))

        for shard in self.shards:
            self._checkpoint.check_shard(self._name, shard_names.KEYS, shard, progress, count)
            for part in self._parts():
                self._checkpoint.check_shard(self._name, part, shard, progress)
            if self.has_admission:
                self._checkpoint.check_shard(self._name, shard_names.ADMISSION, shard, progress)
        if self.has_unused:
            self._checkpoint.check_shard(self._name, shard_names.UNUSED, self._rank, progress)
        if self._strays is not None:
            total = self._strays.choose()
        self.total = total
        needed = total if self._table.use_hashtable else self._wanted.rows_for(greatest, self._ranks)
        if needed > self._wanted.rows:
            raise MismatchError(
                "{} has {} rows of table '{}' for rank {} of {}, and its shard has {} rows{}: {}.".format(
                    self._checkpoint.folder, needed, self._name, self._rank, self._ranks, self._wanted.rows,
                    " at most" if self._wanted.grows else "", self._wanted.remedy(needed)))

    def chunks(self) -> Iterator[Tuple[np.ndarray, Dict[str, np.ndarray]]]:
        """Yields (keys int64 [n], {part: array [n, …]}) in the order in which rows are given. Raises DamagedError."""
        for shard in self.shards:
            with ExitStack() as files:
                keys_file = files.enter_context(self._checkpoint.open(self._name, shard_names.KEYS, shard))
                readers = {part: files.enter_context(self._checkpoint.open(self._name, part, shard))
                           for part in self._parts()}
                step = min([rows_per_chunk(reader) for reader in readers.values()] or [rows_per_chunk(keys_file)])
                for first in range(0, keys_file.header.count, step):
                    n = min(step, keys_file.header.count - first)
                    keys = keys_file.read(first, n)
                    rows = {part: reader.read(first, n) for part, reader in readers.items()}
                    if not self.same_ranks:
                        mine = self._wanted.mine(keys, self._rank, self._ranks)
                        if self._strays is not None:
                            mine = mine[self._strays.chosen(keys[mine], shard)]
                        keys, rows = keys[mine], {part: values[mine] for part, values in rows.items()}
                    if len(keys):
                        yield keys, rows

    @property
    def has_unused(self) -> bool:
        """Whether the rows without a key are there and mean the same rows here: same ranks, same V."""
        return self.same_ranks and not self._wanted.grows and self._wanted.rows == self._table.rows and \
            shard_names.UNUSED in self._table.parts

    def unused(self) -> Optional[Iterator[np.ndarray]]:
        """Chunks of the rows that have no key, float32 [n, D], from row `total` on; None where they do not apply."""
        return self._unused() if self.has_unused else None

    def _unused(self) -> Iterator[np.ndarray]:
        with self._checkpoint.open(self._name, shard_names.UNUSED, self._rank) as reader:
            for _, rows in chunks_of(reader):
                yield rows

    @property
    def has_admission(self) -> bool:
        """Whether it is there which new keys have been asked for, and how often, and means the same here."""
        forgetting, saved = self._wanted.forgetting, self._table.admission
        return bool(self.shards) and forgetting is not None and saved is not None and saved == forgetting.sketch_shape

    def admission(self) -> Optional[Iterator[np.ndarray]]:
        """Chunks of it, int64 [n]: see admission_counts.py. None where the table has to begin anew."""
        forgetting = self._wanted.forgetting
        if forgetting is None or not self.has_admission:
            return None
        due = admission.looked_at(forgetting.sketch_width)
        return admission_counts.chunks(self._checkpoint, self._name, self.shards, due)

    def _parts(self) -> Sequence[str]:
        return [part for part in self._wanted.parts if part in self._table.parts]

    def _compare(self) -> None:
        wanted, table = self._wanted, self._table
        self._expect("D", table.dim, wanted.dim)
        self._expect("key dtype", table.key_dtype, wanted.key_dtype)
        self._expect("use_hashtable", table.use_hashtable, wanted.use_hashtable)
        if table.keys != wanted.keys:
            self._expect("the number of rows", _rows_of_all(table.keys), _rows_of_all(wanted.keys))
        for part, (dtype, row_shape) in wanted.parts.items():
            if part not in table.parts:
                if part in shard_names.SCORES:
                    continue  # it was saved by a table that did not forget, or did by other scores
                raise MismatchError("{} has no '{}' of table '{}', which the model has; it has {}.{}".format(
                    self._checkpoint.folder, part, self._name, ", ".join(sorted(table.parts)),
                    self._remedy(part)))
            self._expect("dtype of " + part, table.parts[part].dtype, dtype)
            self._expect("shape of a row of " + part, list(table.parts[part].row_shape), list(row_shape))

    def _remedy(self, part: str) -> str:
        if not part.startswith(shard_names.SLOT):
            return ""
        return _OTHER_NUMBER if _slots(self._wanted.parts) == _slots(self._table.parts) else _OTHER_OPTIMIZER

    def _expect(self, what: str, saved: Any, wanted: Any) -> None:
        if saved != wanted:
            raise MismatchError(
                "{} of table '{}' is {} in {}, and {} in the model: build the layer as it was when the checkpoint was "
                "saved.".format(what, self._name, saved, self._checkpoint.folder, wanted))


def _slots(parts: Iterable[str]) -> List[str]:
    """Names of slots without the numbers that TensorFlow gives to names that there are already."""
    return sorted(re.sub("_[0-9]+(?=/|$)", "", part) for part in parts if part.startswith(shard_names.SLOT))


def _rows_of_all(keys: Optional[int]) -> Any:
    return "V on each rank, a layer's" if keys is None else keys

"""Tables without index: key k is row k // N of rank k % N."""
from typing import Any, Callable, Optional

from sok1x.cuda_kernels import index_keys, row_numbers, stamps, unique
from sok1x.graph_ops.bridge.errors import INVALID_ARGUMENT, CallError
from sok1x.graph_ops.stores.base_store import Found, Store
from sok1x.graph_ops.stores.table import Table


class DirectStore(Store):
    """See the module's text."""

    @staticmethod
    def check_keys(request: Any, table: Table, world: Any, keys: Any, count: int,
                   position: Callable[[int], int]) -> None:
        """See `Store.check_keys`: a key is in [0, V * N)."""
        if keys.dtype != "int64":
            wide = request.temporary("int64", count)
            unique.widen(keys.pointer, keys.dtype, count, wide.pointer)
            keys = wide
        limit = table.rows * world.size
        bad = row_numbers.first_out_of_range(keys.pointer, count, limit)
        if bad < 0:
            return
        raise CallError(INVALID_ARGUMENT, (
            "embedding table '{}' on rank {}: got key {} at position {} of the batch, expected keys in [0, {}) "
            "(max_vocabulary_size_per_gpu {} x {} ranks, use_hashtable=False); raise max_vocabulary_size_per_gpu, or "
            "set use_hashtable=True to take any key").format(
                table.name, world.rank, int(keys.read()[bad]), position(bad), limit, table.rows, world.size))

    def find(self, keys: Any, count: int, rows: Any) -> Found:
        """See `Store.find`."""
        row_numbers.direct(keys.pointer, count, self.world.size, rows.pointer)
        return Found(rows, rows, 0)

    def insert(self, keys: Any, count: int, rows: Any) -> Found:
        """See `Store.insert`: there is nothing to insert."""
        return self.find(keys, count, rows)

    def look_up(self, keys: Any, at: Any, out: Optional[Any]) -> Optional[int]:
        """See `Store.look_up`: keys are made distinct before, to be checked."""
        return None

    def used(self) -> int:
        """See `Store.used`."""
        return self.table.rows

    def write_keys(self, first: int, count: int, keys: Any) -> None:
        """See `Store.write_keys`."""
        index_keys.direct_keys(first, count, self.world.size, self.world.rank, keys.pointer)

    def write_some_keys(self, rows: Any, count: int, number: Any, keys: Any) -> None:
        """See `Store.write_some_keys`."""
        stamps.direct_keys(rows.pointer, count, self.world.size, self.world.rank, keys.dtype, keys.pointer)

"""Tables without index: a key says itself where it is, as the table's `Placement` has it."""
from typing import Any, Callable, Optional

from sok1x.cuda_kernels import index_keys, row_numbers, stamps, unique
from sok1x.cuda_kernels.arrays import Array
from sok1x.graph_ops.bridge.errors import INVALID_ARGUMENT, CallError
from sok1x.graph_ops.stores.base_store import Found, Store
from sok1x.graph_ops.stores.table import Table


class DirectStore(Store):
    """See the module's text."""

    @staticmethod
    def check_keys(request: Any, table: Table, world: Any, keys: Array, count: int,
                   position: Callable[[int], str]) -> None:
        """See `Store.check_keys`: a key is in [0, total)."""
        if keys.dtype != "int64":
            wide = request.temporary("int64", count)
            unique.widen(keys.front(count), wide)
            keys = wide
        bad = row_numbers.first_out_of_range(keys.front(count), table.total(world.size))
        if bad < 0:
            return
        raise CallError(INVALID_ARGUMENT, (
            "embedding table '{}' on {}: got key {} at {}, expected keys in {}{}").format(
                table.name, world.name, int(keys.read()[bad]), position(bad), table.expected_keys(world.size),
                "" if table.keys is not None else
                "; raise max_vocabulary_size_per_gpu, or set use_hashtable=True to take any key"))

    @property
    def _parts(self) -> int:
        return self.table.placement.parts(self.world.size)

    @property
    def _place(self) -> int:
        """Which of these parts this rank is, where it has rows."""
        return self.world.rank - self.table.placement.first

    def find(self, keys: Array, count: int, rows: Array) -> Found:
        """See `Store.find`."""
        row_numbers.direct(keys.front(count), self._parts, rows)
        return Found(rows, rows, 0)

    def insert(self, keys: Array, count: int, rows: Array) -> Found:
        """See `Store.insert`: there is nothing to insert."""
        return self.find(keys, count, rows)

    def look_up(self, keys: Array, at: Array, out: Optional[Array]) -> Optional[int]:
        """See `Store.look_up`: keys are made distinct before, to be checked."""
        return None

    def used(self) -> int:
        """See `Store.used`."""
        return self.table.rows

    def write_keys(self, first: int, count: int, keys: Array) -> None:
        """See `Store.write_keys`."""
        index_keys.direct_keys(first, self._parts, self._place, keys.front(count))

    def write_some_keys(self, rows: Array, count: int, number: Array, keys: Array) -> None:
        """See `Store.write_some_keys`."""
        stamps.direct_keys(rows.front(count), self._parts, self._place, keys)

"""Tables with a hash index: keys get rows as they come, until the shard is full."""
from typing import Any, Callable, Optional

from sok1x.cuda_kernels import fill, gather, hash_index, index_keys, lookup, row_numbers, stamps, unique
from sok1x.graph_ops.bridge.agreed import agree
from sok1x.graph_ops.bridge.errors import INTERNAL, RESOURCE_EXHAUSTED, CallError
from sok1x.graph_ops.stores import clock
from sok1x.graph_ops.stores.base_store import Found, Store
from sok1x.graph_ops.stores.table import Table


class HashedStore(Store):
    """See the module's text."""

    @staticmethod
    def check_keys(request: Any, table: Table, world: Any, keys: Any, count: int,
                   position: Callable[[int], str]) -> None:
        """See `Store.check_keys`: any integer is a key."""

    def find(self, keys: Any, count: int, rows: Any) -> Found:
        """See `Store.find`."""
        missing = hash_index.find(self.index.pointer, self.index.shape[0], keys.pointer, count, rows.pointer)
        read_from = rows
        if missing and self.table.by_row:
            # A Keras initializer's values are in the rows not yet in use: read those that these keys would get.
            read_from = self.request.temporary("int32", count)
            row_numbers.number_missing(rows.pointer, count, int(self.count.read()), self.table.rows, read_from.pointer)
        return Found(rows, read_from, missing)

    def insert(self, keys: Any, count: int, rows: Any) -> Found:
        """See `Store.insert`."""
        table, found = self.table, self.find(keys, count, rows)
        used = int(self.count.read()) if found.missing else 0
        code, message = 0, ""
        if used + found.missing > table.rows:
            code, message = RESOURCE_EXHAUSTED, (
                "embedding table '{}' is full on rank {}: {} of {} rows (max_vocabulary_size_per_gpu) are in use and "
                "the batch has {} new keys; nothing was changed. Raise max_vocabulary_size_per_gpu, or train on more "
                "ranks").format(table.name, self.world.rank, used, table.rows, found.missing)
        agree(self.world, code, message)
        if not found.missing:
            return found
        inserted = hash_index.insert(self.index.pointer, self.index.shape[0], keys.pointer, count, rows.pointer, used)
        if not table.by_row:
            new_keys = self.request.temporary("int64", inserted)
            row_numbers.collect_new(keys.pointer, rows.pointer, count, used, new_keys.pointer)
            self.write_initial_rows(new_keys, inserted, 0, self.rows.pointer + used * table.dim * 4)
        fill.fill_int64(self.count.pointer, 1, used + inserted)
        clock.stamp_new(self, used, inserted)
        return Found(rows, rows, 0)

    def look_up(self, keys: Any, at: Any, out: Optional[Any]) -> Optional[int]:
        """See `Store.look_up`."""
        values = (0,) if out is None else (out.pointer, out.dtype)
        return lookup.look_up(keys.pointer, keys.dtype, keys.size, self.index.pointer, self.index.shape[0],
                              self.rows.pointer, self.table.dim, at.pointer, *values)

    def start_look_up(self, keys: Any, at: Any, counts: Any) -> bool:
        """See `Store.start_look_up`: on a GPU."""
        if self.request.gpu is None:
            return False
        lookup.start(keys.pointer, keys.dtype, keys.size, self.index.pointer, self.index.shape[0], at.pointer,
                     counts.take())
        return True

    def evaluate(self, keys: Any, at: Any, out: Any) -> bool:
        """See `Store.evaluate`: on a GPU, where initial values are a function of the key."""
        if self.request.gpu is None or self.table.by_row:
            return False
        lookup.start(keys.pointer, keys.dtype, keys.size, self.index.pointer, self.index.shape[0], at.pointer, 0)
        gather.gather(self.rows.pointer, self.table.dim, at.pointer, keys.size, out.pointer, dtype=out.dtype)
        if keys.dtype != "int64":
            wide = self.request.temporary("int64", keys.size)
            unique.widen(keys.pointer, keys.dtype, keys.size, wide.pointer)
            keys = wide
        self.write_initial_rows(keys, keys.size, at.pointer, out.pointer, out.dtype)
        return True

    def used(self) -> int:
        """See `Store.used`."""
        used = int(self.count.read())
        if not 0 <= used <= self.table.rows:
            raise CallError(INTERNAL, "{}: its count says that {} rows are in use, expected a number in [0, {}]".format(
                self.label, used, self.table.rows))
        return used

    def write_keys(self, first: int, count: int, keys: Any) -> None:
        """See `Store.write_keys`."""
        index_keys.keys_by_row(self.index.pointer, self.index.shape[0], first, count, keys.pointer)

    def write_some_keys(self, rows: Any, count: int, number: Any, keys: Any) -> None:
        """See `Store.write_some_keys`."""
        stamps.numbered_keys(self.index.pointer, self.index.shape[0], number.pointer, number.size, keys.dtype,
                             keys.pointer)

"""Tables with a hash index: keys get rows as they come, until the shard is full."""
from typing import Any, Callable, Optional, Tuple

from sok1x.cuda_kernels import backend, fill, gather, hash_index, index_keys, lookup, row_numbers, stamps, unique
from sok1x.cuda_kernels.arrays import Array
from sok1x.graph_ops.bridge.agreed import agreed
from sok1x.graph_ops.bridge.errors import ABORTED, INTERNAL, RESOURCE_EXHAUSTED, CallError
from sok1x.graph_ops.stores import clock, growth, repair
from sok1x.graph_ops.stores.base_store import Found, Store
from sok1x.graph_ops.stores.table import Table


class HashedStore(Store):
    """See the module's text."""

    @staticmethod
    def check_keys(request: Any, table: Table, world: Any, keys: Array, count: int,
                   position: Callable[[int], str]) -> None:
        """See `Store.check_keys`: any integer is a key."""

    def find(self, keys: Array, count: int, rows: Array) -> Found:
        """See `Store.find`."""
        missing = hash_index.find(self.index, keys.front(count), rows)
        read_from = rows
        if missing and self.table.by_row:
            # A Keras initializer's values are in the rows not yet in use: read those that these keys would get.
            read_from = self.request.temporary("int32", count)
            row_numbers.number_missing(rows, int(self.count.read()), self.capacity, read_from)
        return Found(rows, read_from, missing)

    def insert(self, keys: Array, count: int, rows: Array) -> Found:
        """See `Store.insert`."""
        missing, used = self._find_and_count(keys, count, rows)

        def make_room() -> None:
            nonlocal missing, used
            repair.raise_noted(self)
            if missing:
                self.request.reserve(hash_index.insert_bytes(count))
            if not missing or used + missing <= self.capacity or not self._make_room(used, missing):
                return
            missing, used = self._find_and_count(keys, count, rows)  # the variables were unlocked for a moment
            if used + missing > self.capacity:
                raise CallError(ABORTED, "{}: others have changed its index while it got more rows; nothing was "
                                         "changed here. Run the step again".format(self.label))

        agreed(self.world, make_room)
        if missing:
            try:
                self._enter(keys, count, rows, missing, used)
            except Exception as error:  # the others have gone on
                repair.without(self, used)
                repair.note(self, error)
                return self.find(keys, count, rows)
        return Found(rows, rows, 0)

    def give_room(self, needed: int) -> bool:
        """Sees to it that a table which grows has `needed` rows, where it may. Returns whether it has them.

        Not of tables whose rows begin by their numbers: then it matters who comes first of those that insert keys.
        """
        repair.raise_noted(self)
        if not self.table.grows or self.table.by_row or needed > self.table.most_rows:
            return False
        if needed > self.capacity:
            growth.grow(self, needed)
        return True

    def _find_and_count(self, keys: Array, count: int, rows: Array) -> Tuple[int, int]:
        """`rows` int32 [count] of keys; returns how many have none, and how many rows are in use: a GPU is waited for
        once."""
        counts = backend.counts()
        hash_index.start_find(self.index, keys.front(count), rows, counts.take())
        row_numbers.look_up_int64(self.count, None, counts.take())
        missing, used = counts.read()
        return missing, used

    def _enter(self, keys: Array, count: int, rows: Array, missing: int, used: int) -> None:
        """Gives those of the keys that have no row, `missing` of them, the next ones, from `used` on."""
        table = self.table
        inserted = hash_index.insert(self.index, keys.front(count), rows, used, missing)
        if not table.by_row:
            new_keys = self.request.temporary("int64", inserted)
            row_numbers.collect_new(keys.front(count), rows, used, new_keys)
            self.write_initial_rows(new_keys, None, self.rows.some(used, inserted))
        fill.fill_int64(self.count, used + inserted)
        clock.stamp_new(self, used, inserted)

    def _make_room(self, used: int, missing: int) -> bool:
        """Sees to it that there are `missing` rows more than the `used`, or raises RESOURCE_EXHAUSTED.

        Returns:
          Whether others may have changed the table meanwhile.
        """
        table = self.table
        if table.grows and used + missing <= table.most_rows:
            return growth.grow(self, used + missing)
        asked = ("embedding table '{}' is full on {}: {} of {} rows ({}) are in use and the batch has {} new "
                 "keys; nothing was changed. ").format(
                     table.name, self.world.name, used, table.most_rows,
                     "max_capacity" if table.grows else "max_vocabulary_size_per_gpu", missing)
        if table.grows:
            raise CallError(RESOURCE_EXHAUSTED, asked + (
                "Raise max_capacity, or train on more ranks; a checkpoint can be restored into a table with a larger "
                "one"))
        raise CallError(RESOURCE_EXHAUSTED, asked + (
            "Raise max_vocabulary_size_per_gpu, set it to None to let the table grow, or train on more ranks; a "
            "checkpoint can be restored into a larger table"))

    def look_up(self, keys: Array, at: Array, out: Optional[Array]) -> Optional[int]:
        """See `Store.look_up`."""
        return lookup.look_up(keys, self.index, self.rows, at, out)

    def start_look_up(self, keys: Array, at: Array, counts: Any) -> bool:
        """See `Store.start_look_up`: on a GPU."""
        if self.request.gpu is None:
            return False
        lookup.start(keys, self.index, at, counts.take())
        return True

    def evaluate(self, keys: Array, at: Array, out: Array) -> bool:
        """See `Store.evaluate`: on a GPU, where initial values are a function of the key."""
        if self.request.gpu is None or self.table.by_row:
            return False
        lookup.start(keys, self.index, at, None)
        gather.gather(self.rows, at, out)
        if keys.dtype != "int64":
            wide = self.request.temporary("int64", keys.size)
            unique.widen(keys, wide)
            keys = wide
        self.write_initial_rows(keys, at, out)
        return True

    def used(self) -> int:
        """See `Store.used`."""
        used = int(self.count.read())
        if not 0 <= used <= self.capacity:
            raise CallError(INTERNAL, "{}: its count says that {} rows are in use, expected a number in [0, {}]".format(
                self.label, used, self.capacity))
        return used

    def write_keys(self, first: int, count: int, keys: Array) -> None:
        """See `Store.write_keys`."""
        index_keys.keys_by_row(self.index, first, keys.front(count))

    def write_some_keys(self, rows: Array, count: int, number: Array, keys: Array) -> None:
        """See `Store.write_some_keys`."""
        stamps.numbered_keys(self.index, number, keys)

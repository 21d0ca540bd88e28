"""All rows of a table with a cache, as those of any other table: for what moves whole tables."""
from typing import Any, List, Optional, Tuple

import numpy as np

from sok1x.cuda_kernels import fill, hash_index
from sok1x.cuda_kernels.arrays import Array
from sok1x.graph_ops.stores import cache, clock, growth, host_growth, shown_steps
from sok1x.graph_ops.stores.forgetful_store import ForgetfulStore
from sok1x.graph_ops.stores.forgetting import KNOWN, TICK, unknown_after
from sok1x.graph_ops.stores.host_column import HostColumn, Rows


class WholeStore(ForgetfulStore):
    """See the module's text. Its index is that of all keys, and rows and slots are `Array`s in the host's memory, up to
    date; `stamps`, and `used` where rows are free, are on the request's device.

    Args:
      cached: a `CachedStore`, locked. replaces: all rows are about to be replaced: what they have been nobody asks.
    """

    def __init__(self, cached: Any, replaces: bool) -> None:
        self._cached, self._replaces = cached, replaces
        super().__init__(cached.request, cached.table, cached.world, cached._held,
                         [*cached.own.values(), *cached.slots.values()])
        self._columns = {**cached.columns(), **cached.held_columns()}
        self._given = int(cached.numbers()[cache.GIVEN])
        self._others = self._keep_others() if replaces else []
        if not replaces:
            self._write_back()
        self._look()

    def _write_back(self) -> None:
        """Has the host's memory have what the cache has, which stays there."""
        cached, rows, slots = self._cached, self._cached.homes_in_use(), self._cached.held_columns()
        cached.tier.reserve(self._given, self._given)
        # What the cache has in place of the slots of lean rows is nobody's.
        whole = cached.homes_in_use(whole=True) if slots else rows
        for name, (column, array) in self._columns.items():
            column.write(array, Rows(None, whole if name in slots else rows))
        self._wait()

    def _wait(self) -> None:
        if self.request.gpu is not None:
            self.request.gpu.synchronize()

    def _look(self) -> None:
        """Takes everything as it is now."""
        cached, rows = self._cached, self._columns["rows"][0].rows
        self.index, tiers = cached.own["every"], cached.own["tiers"]
        self.count = tiers.at(cache.GIVEN)
        self.rows = self._columns["rows"][0].array(rows)
        self.slots = {name: self._columns[name][0].array(rows) for name in self.slots}
        self.own = {name: array for name, array in cached.own.items() if name != "used"}
        if self._replaces:
            return
        self.stamps = self._columns["stamps"][0].on_device(self._given)
        if cached.numbers()[cache.FREE]:
            self.own["used"] = self._columns["used"][0].on_device(self._given)

    @property
    def capacity(self) -> int:
        """See `Store.capacity`: rows that the host has memory for; a slot that begins anew has none until then, and
        after an initializer has run once more the index has room for fewer."""
        columns = [self._columns[name][0] for name in ("rows", *self.slots)]
        return min(hash_index.slots(self.index) * 2 // 3, *(column.rows for column in columns))

    def whole(self, replaces: bool = False) -> "WholeStore":
        """See `Store.whole`."""
        return self

    def in_use(self) -> int:
        """See `Store.in_use`."""
        return int(self._cached.in_use())

    def rows_in_use(self) -> Optional[Tuple[Any, int, Any]]:
        """See `Store.rows_in_use`."""
        if "used" not in self.own:
            return None
        return growth.rows_in_use(self.request, self.own["used"], self._given)

    def read_rows(self, rows: Array, count: int, out: Array) -> None:
        """See `Store.read_rows`."""
        self._columns["rows"][0].read(out, Rows(None, rows.front(count)))

    # ---- loading

    def make_room(self, rows: int) -> None:
        """See `Store.make_room`."""
        cached = self._cached
        numbers = np.zeros_like(cached.numbers())
        numbers[cache.GIVEN] = self._given
        with cached.slots_reached("every"):
            host_growth.make_room(cached, cached.state(), numbers, max(0, rows - self._given), None)
        self._look()

    def begin_again(self) -> None:
        """See `Store.begin_again`: nothing is in the cache either."""
        cached, own = self._cached, self._cached.own
        unknown = unknown_after(cached.state().known, shown_steps.before_restore(cached, clock.last_step(cached)))
        self._wait()
        hash_index.clear(cached.index)
        fill.fill_int64(cached.count, 0)
        for name, value in (("used", 0), ("frequency", 1), ("counters", 0), ("sketch", 0), ("tiers", 0)):
            if name in own:
                fill.fill_int64(own[name], value)
        fill.fill_int64(own["counters"].at(KNOWN), unknown)
        for name, value in (("used", 0), ("frequency", 1)):
            if name in self._columns:
                column = self._columns[name][0]
                column.numpy(column.rows)[...] = value

    def _keep_others(self) -> List[HostColumn]:
        """The slots that the op does not hold, which stay as they are: the host's memory gets what the cache has."""
        cached, held = self._cached, {column.name for column, _ in self._columns.values()}
        with cached.slots_reached():
            others = [each for each in cached.columns().values() if each[0].name not in held]
            if others:
                cached.tier.reserve(self._given, self._given)
                homes = cached.homes_in_use(whole=True)
                for column, array in others:
                    column.write(array, Rows(None, homes))
                self._wait()
        return [column for column, _ in others]

    def loaded(self, count: int) -> None:
        """See `Store.loaded`: slots that the op does not hold begin, where there were no rows before; the next lookup's
        tick is above those of all rows."""
        cached = self._cached
        for column in self._others:
            column.numpy(min(count, column.rows))[self._given:] = column.value
        used = self._columns["used"][0].numpy(count)
        fill.fill_int64(cached.own["counters"].at(TICK), int(used.max()) if count else 0)
        fill.fill_int64(cached.own["tiers"].at(cache.HOST_BYTES), cached.tier.bytes())

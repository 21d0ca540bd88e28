"""Tables of which the host's memory has all rows, and the variables, in the memory of the device, some: a cache."""
import contextlib
from typing import Any, Callable, Dict, Iterator, Optional, Tuple

from sok1x.cuda_kernels import cache_rows, fill, gather, index_rows, row_numbers, row_use, stamps
from sok1x.cuda_kernels.arrays import Array
from sok1x.graph_ops.bridge import pins, tiers
from sok1x.graph_ops.bridge.agreed import agreed
from sok1x.graph_ops.bridge.errors import FAILED_PRECONDITION, CallError
from sok1x.graph_ops.stores import beside, cache, cache_plan, clock, host_growth, known_slots, lean_rows
from sok1x.graph_ops.stores.base_store import Found, Store
from sok1x.graph_ops.stores.cache_plan import Plan
from sok1x.graph_ops.stores.crossing import Crossing
from sok1x.graph_ops.stores.forgetful_store import ForgetfulStore, reset
from sok1x.graph_ops.stores.forgetting import ADMITTED, EVICTED, FREE, KNOWN, TICK, UNKNOWN_STEP, known_since
from sok1x.graph_ops.stores.host_column import HostColumn, Rows, by_home
from sok1x.graph_ops.stores.host_pieces import HostPieces
from sok1x.graph_ops.stores.host_tier import HostTier
from sok1x.graph_ops.stores.row_gradients import RowGradients
from sok1x.graph_ops.stores.whole_store import WholeStore


class CachedStore(ForgetfulStore):
    """See the module's text. The variables are those of a table of C rows that forgets, `index` and all: of the keys
    that are in the cache. Besides, in `own`:

    every      int64 [S, 2], the index of all keys: their rows in the host's memory (host_tier.py)
    home       int64 [C], the row in the host's memory of each row of the cache that belongs to a key, and whether it is
               lean (`cache_rows.LEAN`; lean_rows.py)
    tiers      int64 [8], `cache.GIVEN` (rows in the host's memory that have been given out), FREE (of them those that
               keys have left), HITS, MISSES, NEW (distinct keys of training lookups that were in the cache, in the
               host's memory alone, or nowhere), PUSHED (rows that went back), HOST_BYTES, LEAN (rows of the cache that
               are)

    A training lookup has its keys come into the cache, with all that the optimizers keep for them. For them others go
    back to the host's memory, and are written there: whatever is in the cache has been asked for to be trained, but for
    rows that are lean. The host's memory has nothing to say of other keys that are in the cache. Evaluations read where
    rows are, and move none.
    """

    _tier: Optional[HostTier] = None
    crossing: Optional[Crossing] = None  # of the request, once there is a plan
    _slots: Dict[Any, Any] = {}

    @property
    def tier(self) -> HostTier:
        """The rows in the host's memory."""
        if self._tier is None:
            self._tier = HostTier(self.request, self.table, self.world)
        return self._tier

    def columns(self) -> Dict[str, Tuple[HostColumn, Any]]:
        """{name: (the column, the variable's `Array`)} of all that a row has; slots by their variables' names, where
        they have been reached."""
        found = {name: (self.tier.take(beside.column_of(self.table, name), self.own[name], shares=name == "rows"),
                        self.own[name])
                 for name in ("rows", "stamps", "used", "frequency") if name in self.own}
        for slot, array in self._slots.items():
            found[slot.name] = self.tier.take(slot.name, array, slot.value, shares=True), array
        return found

    def held_columns(self) -> Dict[str, Tuple[HostColumn, Any]]:
        """{name: (the column, the variable's `Array`)} of what the op holds as slots."""
        first, found = len(self._held.names), {}  # type: int, Dict[str, Any]
        if not self.slots:
            return found
        values = {slot.name: slot.value for slot in known_slots.of(self.request, self.table)}
        for number, (name, array) in enumerate(self.slots.items()):
            variable = tiers.variable_name(self.request, first + number)
            found[name] = self.tier.take(variable, array, values.get(variable, 0), shares=True), array
        return found

    def numbers(self) -> Any:
        """What `tiers` has, a NumPy array; a GPU's are waited for."""
        return self.own["tiers"].read()

    def in_use(self) -> int:
        """See `Store.in_use`."""
        found = self.numbers()
        return int(found[cache.GIVEN] - found[cache.FREE])

    def homes_in_use(self, whole: bool = False) -> Any:
        """int32, for each row of the cache that has been given out the row in the host's memory, or -1; `whole`: also
        where it is lean."""
        given = int(self.count.read())
        where = self.request.temporary("int32", given)
        cache_rows.homes_in_use(self.own["used"], self.own["home"], where, whole)
        return where

    def whole(self, replaces: bool = False) -> Store:
        """See `Store.whole`."""
        return WholeStore(self, replaces)

    # ---- lookups

    def touched(self, rows: Array) -> None:
        """See `Store.touched`."""
        counters, frequency = self.own["counters"], self.own.get("frequency")
        pins.look(self.request, self.table.name, self.place_of_rows)
        stamps.advance(counters.at(TICK), 1, 0)
        cache_rows.touch(rows, counters.at(TICK), self.own["used"], frequency, self.own["tiers"].at(cache.HITS))

    def evaluate(self, keys: Array, at: Array, out: Array) -> bool:
        """See `Store.evaluate`: what is not in the cache may be in the host's memory."""
        return False

    def distinct_values(self, keys: Array, found: Found) -> Any:
        """See `Store.distinct_values`."""
        count, every = found.rows.size, self.own["every"]
        values = self.request.temporary("float32", count, self.table.dim)
        gather.gather(self.rows, found.rows, values)
        self.write_initial_rows(keys.front(count), found.rows, values)
        homes = self.request.temporary("int32", count)
        absent, new = cache_rows.find_homes(keys.front(count), found.rows, every, homes)
        if absent > new:
            column = self.columns()["rows"][0]
            column.read(values, by_home(self.request, Rows(None, homes), column.rows))
        return values

    def gather(self, found: Found, places: Array, out: Array) -> None:
        """See `Store.gather`; where keys are not in the cache `fill_unseen` does all."""
        if not found.missing:
            super().gather(found, places, out)

    def fill_unseen(self, keys: Array, found: Found, places: Array, out: Array) -> None:
        """See `Store.fill_unseen`."""
        if found.missing:
            values = self.distinct_values(keys, found)
            gather.gather(values, places, out)

    def insert(self, keys: Array, count: int, rows: Array) -> Found:
        """See `Store.insert`: keys that have a row come into the cache, those that have none get one."""
        missing, plan, lean = 0, None, lean_rows.note_lookup(self)  # type: int, Any, bool

        def prepare() -> None:
            nonlocal missing, plan
            self._slots = self._reach_slots("every")
            missing = self.find(keys, count, rows).missing
            self.touched(rows)
            if missing:
                plan = cache_plan.make(self, keys, count, rows, lean)

        try:
            agreed(self.world, prepare)
            if plan is not None:
                missing -= plan.keys.size
                self._bring(keys, count, rows, plan)
        finally:
            if self.crossing is not None:
                self.crossing.end()
            self._slots, self.crossing = {}, None
            self._let_go()
        return Found(rows, rows, missing)

    @contextlib.contextmanager
    def slots_reached(self, *besides: str) -> Iterator[None]:
        """Inside, the optimizers' slots are locked too, and variables of the table by these names."""
        try:
            self._slots = self._reach_slots(*besides)
            yield
        finally:
            self._slots = {}
            self._let_go()

    def about_to_change(self, rows: Optional[Array]) -> None:
        """See `Store.about_to_change`: their slots come, where they have none in the cache."""
        lean_rows.note_change(self)
        if not self.numbers()[cache.LEAN]:
            return
        besides = [name for name in lean_rows.VARIABLES if name not in self.own]
        with self.slots_reached(*besides):
            self.own.update((name, self._reached.arrays[name]) for name in besides)
            lean_rows.take_slots(self, rows)

    def leave(self, rows: Array) -> int:
        """Has rows of the cache leave the table: not known what that would mean for those that are not in it."""
        raise CallError(FAILED_PRECONDITION, (
            "{}: got {} rows to leave by their numbers, expected a table whose rows are all in its variables: this one "
            "has them in host memory, and a cache; nothing was changed. Give it no cache (max_hbm_for_vectors, "
            "cache_rows), or let rows leave by evict_strategy").format(self.label, len(rows)))

    # ---- changes: nothing here fails

    def _bring(self, keys: Array, count: int, rows: Array, plan: Plan) -> None:
        """Brings the batch's keys into the cache."""
        own, state, numbers, crossing = self.own, plan.state, plan.tiers, self.crossing
        assert crossing is not None
        counters = own["counters"]
        ahead, at_least = clock.step_of_new(self.request, self.table.name)
        if state.known >= UNKNOWN_STEP:
            fill.fill_int64(counters.at(KNOWN), known_since(state.known, int(self.clock.read())))
        if plan.table is not None:
            left = host_growth.leave(self, plan.table, numbers, state.evicted, ahead, at_least, plan.vacant)
            fill.fill_int64(counters.at(EVICTED), state.evicted + left)
        free = state.free
        if plan.pushed is not None:
            cache_rows.homes_of(plan.pushed, own["home"], plan.where)
            going = Rows(plan.pushed, plan.where)
            crossing.leave(going, going if plan.whole is None else Rows(plan.pushed, plan.whole), plan.written)
        crossing.start()
        if plan.leaving is not None:
            self._take_out(plan)
            free += plan.leaving.size
            row_use.list_free(own["used"].front(state.given), own["free"].front(free))
        coming, new = plan.keys.size, plan.new_keys.size
        cache_rows.give(keys.front(count), rows, plan.homes, own["free"].front(free), state.given, plan.keys, plan.rows,
                        plan.places)
        row_numbers.look_up(plan.places, None, plan.sources)
        index_rows.place(self.index, plan.keys, plan.rows)
        if new:
            host_growth.give(self, numbers, plan)
        cache_rows.set_homes(plan.rows, plan.places, own["home"], plan.sources if plan.lean else None)
        if coming > new:
            crossing.come(rows, Rows(plan.rows, plan.sources))
        if new:
            self._begin(plan, ahead, at_least)
            stamps.advance(counters.at(ADMITTED), new, 0)
        row_use.touch(plan.rows, counters.at(TICK), own["used"], own.get("frequency"))
        again = min(coming, free)
        fill.fill_int64(counters.at(FREE), free - again)
        fill.fill_int64(self.count, state.given + coming - again)
        self._note_figures(plan)

    def _note_figures(self, plan: Plan) -> None:
        """Counts what came and left."""
        numbers, new = plan.tiers, plan.new_keys.size
        known = plan.keys.size - new
        numbers[cache.MISSES] += known
        numbers[cache.NEW] += new
        numbers[cache.PUSHED] += plan.written
        numbers[cache.LEAN] += (known if plan.lean else 0) - (0 if plan.table is None else plan.table.lean) - (
            0 if plan.pushed is None else plan.pushed.size - plan.written)
        numbers[cache.HOST_BYTES] = self.tier.bytes()
        self.own["tiers"].write(numbers)

    def _take_out(self, plan: Plan) -> None:
        """Takes the keys of rows that leave out of the cache's index."""
        rows = plan.leaving
        assert rows is not None
        index_rows.take_out(self.index, rows, self.capacity, plan.runs, plan.out_keys)
        row_use.free(rows, self.own["used"])

    def _begin(self, plan: Plan, ahead: int, at_least: int) -> None:
        """New keys' rows have what rows begin with."""
        new, rows = plan.new_keys.size, plan.new_rows
        self.write_initial_rows(plan.new_keys, None, plan.values)
        cache_rows.move(into=cache_rows.Moves(plan.values, self.rows, None, rows), over_bus=False)
        for slot, array in self._slots.items():
            reset(array, rows, new, slot.value)
        if "frequency" in self.own:
            reset(self.own["frequency"], rows, new, 0)
        row_use.stamp(rows, ahead, at_least, self.clock, self.stamps)

    # ---- what concerns every row

    def stamp_every(self, ahead: int, at_least: int) -> None:
        """See `Store.stamp_every`: all of the host's memory too; nobody reads what that has of rows in the cache."""
        super().stamp_every(ahead, at_least)
        given = int(self.numbers()[cache.GIVEN])
        if not given:
            return
        column = self.columns()["stamps"][0]
        self.tier.reserve(given, given)
        if column.reachable:
            stamps.stamp_range(ahead, at_least, self.clock, column.array(given))
        else:
            column.numpy(given)[...] = max(int(self.clock.read()) + ahead, at_least)

    def apply(self, global_step: bool, given: RowGradients, update: Callable[..., None],
              every_row: bool = False) -> None:
        """See `Store.apply`; rows that are not in the cache move too, where every row does."""
        if every_row or not given.from_lookup:
            self.about_to_change(None if every_row else given.rows)
        held = self.held_columns() if every_row else {}
        columns = [self.columns()["rows"][0], *[column for column, _ in held.values()]]
        rows = int(self.numbers()[cache.GIVEN]) if every_row else 0
        if rows:
            stamped = self.columns()["stamps"][0]
            self.tier.reserve(rows, rows)
            if not all(column.reachable for column in (*columns, stamped)):
                raise CallError(FAILED_PRECONDITION, (
                    "{}: got an optimizer that moves every row at each step, and host memory that the GPU does not "
                    "reach, for it is not pinned; nothing was changed. Use one that moves the rows of the batch, as "
                    "sok1x.tf.keras.optimizers.LazyAdamOptimizer").format(self.label))
        pieces = HostPieces(self.request, columns, rows) if rows else None
        super().apply(global_step, given, update, every_row)
        if pieces is not None:
            # Those in the cache too: nobody reads what the host's memory has of them.
            for arrays in pieces.each():
                update(given.without_rows(), *arrays)

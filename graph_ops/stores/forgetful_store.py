"""Tables with a hash index that forget: at their largest rows leave, and not every key gets one."""
from typing import Any, Dict, NamedTuple, Optional, Tuple

import numpy as np

from sok1x.cuda_kernels import admission, fill, index_rows, lowest_scores, row_use, scan, scatter, stamps
from sok1x.cuda_kernels.arrays import Array
from sok1x.graph_ops.bridge import growing, pins
from sok1x.graph_ops.bridge.agreed import agreed
from sok1x.graph_ops.bridge.bridge import ITEM_BYTES
from sok1x.graph_ops.bridge.errors import ABORTED, FAILED_PRECONDITION, CallError
from sok1x.graph_ops.stores import beside, clock, eviction, growth, known_slots, repair, shown_steps
from sok1x.graph_ops.stores.base_store import Found
from sok1x.graph_ops.stores.eviction import Leaving
from sok1x.graph_ops.stores.forgetting import (
    ADMITTED,
    EVICTED,
    FREE,
    KNOWN,
    REFUSED,
    TICK,
    UNKNOWN_STEP,
    known_since,
    unknown_after,
)
from sok1x.graph_ops.stores.hashed_store import HashedStore


class State(NamedTuple):
    """Numbers of a table.

    Attributes:
      tick: of the last lookup that trained. free: rows that keys have left. evicted: keys that have left, in all.
      known: which keys have left is known since this step. given: rows that have ever been given out.
    """

    tick: int
    free: int
    evicted: int
    known: int
    given: int


class _Room(NamedTuple):
    """What a batch's new keys get their rows from, all of it found before anything changes.

    Attributes:
      state: the table's, before. leaving: rows that leave first, if any.
      keys, rows: int64 and int32 [new], to be filled. values: float32 [new, D], likewise.
      slots: {`known_slots.Slot`: `Array`} of the variables in which rows that are given out again begin anew.
    """

    state: State
    leaving: Optional[Leaving]
    keys: Array
    rows: Array
    values: Array
    slots: Dict[Any, Any]


class ForgetfulStore(HashedStore):
    """See the module's text. Its table's variables besides, in `own`:

    used       int64 [V], the tick of the last training lookup that asked for each row; -1 where a row is free
    free       int64 [V], the numbers of free rows, the lowest last: new keys get these first, from the end
    counters   int64 [6], TICK, FREE (rows), EVICTED (keys, in all), KNOWN: which keys have left before this step nobody
               knows: 0 if the table has not been loaded, UNKNOWN_STEP or more from when it is loaded until the next
               training lookup, and without `evicted` the step at which keys have left last, -1 for step 0; ADMITTED
               (keys that got rows, in all), REFUSED (how often a lookup has refused a key)
    frequency  int64 [V], how many training lookups have asked for each row, for 'lfu'
    evicted    int64 [L, 2], the last keys that left and the step at which they did, a ring
    sketch     how often keys without a row have been asked for (cuda_kernels/admission.cu)

    Rows never move. One that is in the hands of a step in flight never leaves: from a step's first lookup on
    (bridge/pins.py) all that lookups ask for stays until the step is over. Where a batch does not fit, at least a
    sixteenth of the rows leave together, so that most steps do not look for any; of equal scores the lowest row first.
    """

    _reached: Any = None
    _rows_are_given = False

    def memory_for_leaving(self, count: int) -> Tuple[Any, Any]:
        """Where keys and values of `count` rows that leave go: `Leaving`. An op that gives them out has its own."""
        return self.request.temporary("int64", count), None

    @property
    def place_of_rows(self) -> int:
        """Which of the op's variables the rows are."""
        return int(self._held.names.index("rows"))

    def state(self) -> State:
        """The table's numbers; a GPU's are waited for."""
        tick, free, evicted, known = self.own["counters"].read().tolist()[:KNOWN + 1]
        return State(tick, free, evicted, known, int(self.count.read()))

    def touched(self, rows: Array) -> None:
        """See `Store.touched`."""
        counters, frequency = self.own["counters"], self.own.get("frequency")
        pins.look(self.request, self.table.name, self.place_of_rows)
        row_use.begin_lookup(counters.at(TICK), counters.at(KNOWN), UNKNOWN_STEP, self.clock)
        row_use.touch(rows, counters.at(TICK), self.own["used"], frequency)

    def keep_from_gradient(self, rows: Array) -> None:
        """See `Store.keep_from_gradient`: an evaluation pins nothing, so by then a row may be another key's."""
        fill.fill_int32(rows, -1)

    def in_use(self) -> int:
        """See `Store.in_use`."""
        return self.used() - int(self.own["counters"].read()[FREE])

    def rows_in_use(self) -> Optional[Tuple[Any, int, Any]]:
        """See `Store.rows_in_use`."""
        return growth.rows_in_use(self.request, self.own["used"], self.used())

    def begin_again(self) -> None:
        """See `Store.begin_again`: scores may follow."""
        unknown = unknown_after(self.state().known, shown_steps.before_restore(self, clock.last_step(self)))
        for name, value in (("used", 0), ("frequency", 1), ("counters", 0), ("sketch", 0)):
            if name in self.own:
                fill.fill_int64(self.own[name], value)
        fill.fill_int64(self.own["counters"].at(KNOWN), unknown)

    def loaded(self, count: int) -> None:
        """See `Store.loaded`: the next lookup's tick is above those of all rows."""
        used = self.own["used"].front(count)
        newest = lowest_scores.count(lowest_scores.Candidates(used, used, lowest_scores.MOST))[2]
        fill.fill_int64(self.own["counters"].at(TICK), newest)

    def goes_on_after(self, tick: int) -> None:
        """Has the next lookup be the one after `tick`, or after what `loaded` has found if that is later."""
        self.own["counters"].at(TICK).write(np.maximum(self.own["counters"].read()[TICK], tick))

    def insert(self, keys: Array, count: int, rows: Array) -> Found:
        """See `Store.insert`: and a key that is not admitted gets none."""
        found = self.find(keys, count, rows)
        refused, room = 0, None  # type: int, Any

        def prepare() -> None:
            nonlocal refused, room
            repair.raise_noted(self)
            self.touched(rows)
            refused = self._refuse(keys, count, rows, found.missing) if found.missing else 0
            if found.missing > refused:
                room = self._find_room(found.missing - refused)

        try:
            agreed(self.world, prepare)
            if room is not None and not self._gave(keys, count, rows, room):
                return self.find(keys, count, rows)
        finally:
            self._let_go()
        if refused:
            admission.forget_refused(rows.front(count))
        return Found(rows, rows, refused)

    def leave(self, rows: np.ndarray) -> int:
        """Has rows leave that have keys and may; rows: ascending. Returns how many did."""
        state, used = self.state(), self.own["used"].read()
        rows = rows[rows < state.given]
        # The lookup of this tick is over, unless its step is in flight.
        stay = state.tick + 1 if pins.of(self.request, self.place_of_rows) is None else eviction.oldest_pinned(
            self, state.tick)
        rows = rows[(used[rows] >= 0) & (used[rows] < stay)]
        if not rows.size:
            return 0
        going = self.request.temporary("int32", rows.size)
        going.write(rows)
        leaving = eviction.leaving(self, going)
        free = self._evict(leaving, state, *clock.step_of_new(self.request, self.table.name))
        fill.fill_int64(self.own["counters"].at(FREE), free)
        return int(rows.size)

    def _refuse(self, keys: Array, count: int, rows: Array, missing: int) -> int:
        """How many of `missing` new keys, for which rows int32 [count] has -1, get no row: there it has -2 then."""
        forgetting, refused = self.table.forgetting, 0
        if self.filtered is None or forgetting is None:
            return 0
        if forgetting.admit_after > 1:
            refused += admission.refuse_rare(self.own["sketch"], forgetting.sketch_width, keys.front(count),
                                             forgetting.admit_after, rows, missing)
        if self.filtered and forgetting.filter_ratio < 1:
            refused += admission.refuse_drawn(
                self.world.seed_of_rows(), self.table.identity, keys.front(count), self.own["counters"].at(TICK),
                forgetting.filter_ratio, rows)
        if refused:
            stamps.advance(self.own["counters"].at(REFUSED), refused, 0)
        return refused

    # ---- room for new keys

    def _find_room(self, new: int) -> _Room:
        """What `new` keys get their rows from. Only growth changes anything."""
        state, table, leaving, unlocked = self.state(), self.table, None, False
        needed = state.given + max(0, new - state.free)
        if needed > table.most_rows and not (table.forgetting and table.forgetting.strategy):
            self._make_room(state.given - state.free, new)  # which raises
        if min(needed, table.most_rows) > self.capacity:
            unlocked = growth.grow(self, min(needed, table.most_rows))
        slots = self._reach_slots() if state.free or needed > self.capacity else {}
        unlocked = unlocked or self._reached is not None and self._reached.unlocked
        if unlocked and self.state() != state:
            raise CallError(ABORTED, "{}: others have changed its index while room was made; nothing was changed here. "
                                     "Run the step again".format(self.label))
        if needed > self.capacity:
            leaving = eviction.choose(self, state.tick, state.given, needed - self.capacity, new)
        request = self.request
        request.reserve(scan.state_bytes(self.capacity) + scan.state_bytes(new) + scatter.scratch_bytes(new) +
                        (1 << 12))
        return _Room(state, leaving, request.temporary("int64", new), request.temporary("int32", new),
                     request.temporary("float32", new, table.dim), slots)

    def _reach_slots(self, *besides: str) -> Dict[Any, Any]:
        """The optimizers' slots, locked too until `_let_go`; besides: names of the table's variables to reach."""
        slots, table = known_slots.of(self.request, self.table), self.table
        if not slots and not besides:
            return {}
        names: Dict[Any, Any] = {slot: (slot.container, slot.name) for slot in slots}
        if table.growth is not None:
            names.update((name, beside.place_of(table, "" if name == "rows" else name)) for name in besides)
        self._reached = growing.Reached(self.request, table.name, names)
        self.hold(self._reached.own())
        found = {slot: self._reached.arrays[slot] for slot in slots if slot in self._reached.arrays}
        for slot, array in found.items():
            if array.shape[0] < self.capacity or ITEM_BYTES[array.dtype] not in (4, 8):
                raise CallError(FAILED_PRECONDITION, (
                    "embedding table '{}' on {}: got its slot '{}' as {} {}, expected a number of 4 or 8 bytes "
                    "for each of {} rows; nothing was changed. Initialize the slot again").format(
                        self.table.name, self.world.name, slot.name, array.dtype, list(array.shape), self.capacity))
        return found

    def _let_go(self) -> None:
        """Of the slots."""
        if self._reached is not None:
            reached, self._reached = self._reached, None
            self.hold(reached.end())

    # ---- changes: nothing here fails, but for the machine

    def _gave(self, keys: Array, count: int, rows: Array, room: _Room) -> bool:
        """Gives rows to the keys that have -1; False where that has failed, and the next lookup says so (repair.py)."""
        try:
            self._give(keys, count, rows, room)
        except Exception as error:
            repair.without(self, room.state.given, room.rows.read() if self._rows_are_given else None)
            repair.note(self, error)
            return False
        return True

    def _give(self, keys: Array, count: int, rows: Array, room: _Room) -> None:
        """Gives rows to the keys that have -1; first those leave that must."""
        state, own, new = room.state, self.own, room.keys.size
        counters, frequency = own["counters"], own.get("frequency")
        ahead, at_least = clock.step_of_new(self.request, self.table.name)
        free = state.free
        if room.leaving is not None:
            free = self._evict(room.leaving, state, ahead, at_least)
        row_use.give(keys.front(count), rows, own["free"].front(free), state.given, room.keys, room.rows)
        self._rows_are_given = True
        index_rows.place(self.index, room.keys, room.rows)
        self.write_initial_rows(room.keys, None, room.values)
        scatter.scatter(room.values, room.rows, self.rows)
        again = min(new, free)
        for slot, array in room.slots.items():
            reset(array, room.rows, again, slot.value)
        row_use.begin(room.rows, counters.at(TICK), own["used"], frequency)
        row_use.stamp(room.rows, ahead, at_least, self.clock, self.stamps)
        stamps.advance(counters.at(ADMITTED), new, 0)
        fill.fill_int64(counters.at(FREE), free - again)
        fill.fill_int64(self.count, state.given + new - again)

    def note_left(self, keys: Array, evicted: int, ahead: int, at_least: int) -> None:
        """Has it be known which keys have left, or where nothing remembers keys from which step on that none have.

        Args:
          evicted: how many have before. ahead, at_least: as of `clock.step_of_new`.
        """
        if "evicted" in self.own:
            row_use.remember(keys, evicted, ahead, at_least, self.clock, self.own["evicted"])
            return
        counters, now = self.own["counters"], int(self.clock.read())
        known = known_since(int(counters.read()[KNOWN]), now)
        fill.fill_int64(counters.at(KNOWN), max(now + ahead, at_least, known) or -1)

    def _evict(self, leaving: Leaving, state: State, ahead: int, at_least: int) -> int:
        """Has rows leave. Returns how many are free then, and listed."""
        own, n = self.own, leaving.rows.size
        eviction.take_out(self, leaving)
        free = state.free + n
        row_use.list_free(own["used"].front(state.given), own["free"].front(free))
        self.note_left(leaving.keys, state.evicted, ahead, at_least)
        fill.fill_int64(own["counters"].at(EVICTED), state.evicted + n)
        return free


def reset(array: Any, rows: Any, count: int, value: float) -> None:
    """The first `count` of rows int32 become `value` in an optimizer's slot."""
    if not count:
        return
    words = np.frombuffer(np.array(value, array.dtype).tobytes(), np.int32)
    row_use.reset(rows.front(count), int(words[0]), int(words[-1]), array)

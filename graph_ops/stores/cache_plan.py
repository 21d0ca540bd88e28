"""What a batch whose keys are not all in a table's cache needs, all of it found before anything changes."""
from typing import Any, List, NamedTuple, Optional, Tuple

from sok1x.cuda_kernels import cache_rows, index_rows, scan
from sok1x.cuda_kernels.arrays import Array
from sok1x.graph_ops.stores import cache, host_growth, push_out, staged_crossing
from sok1x.graph_ops.stores.forgetful_store import State
from sok1x.graph_ops.stores.host_column import sorted_bytes
from sok1x.graph_ops.stores.push_out import LeavingTable


class Plan(NamedTuple):
    """See the module's text.

    Attributes:
      state: the table's numbers, before. tiers: those of `cache.GIVEN` and so on, likewise.
      homes: int32 [count], of the batch's keys, as `cache_rows.find_homes` has them.
      leaving: rows of the cache that others get, int32, ascending, or None. pushed: of these, int32 [E], those that go
        back to the host's memory; the others leave the table. whole: int32 [E], where in the host's memory those are
        that are not lean, -1 for the others; None: no row is lean. written: how many are not.
      lean: whether rows come so. table: rows that leave the table, or None.
      keys, rows, places, sources: int64 and int32 [n], to be filled for the keys that come: their rows of the cache, in
        the host's memory, and there where they have been before.
      new_keys, new_homes, new_rows, values: int64, int32, int32 and float32 [new, ...], of those that are new.
      vacant: int64, free rows in the host's memory for these, the lowest last.
      out_keys, where, runs, picked: memory for rows that move.
    """

    state: State
    tiers: Any
    homes: Array
    leaving: Optional[Array]
    pushed: Optional[Array]
    whole: Optional[Array]
    written: int
    lean: bool
    table: Optional[LeavingTable]
    keys: Array
    rows: Array
    places: Array
    sources: Array
    new_keys: Array
    new_homes: Array
    new_rows: Array
    values: Array
    vacant: Array
    out_keys: Array
    where: Array
    runs: Array
    picked: List[Array]


def make(store: Any, keys: Array, count: int, rows: Array, lean: bool) -> Plan:
    """The plan of a training lookup; what crosses may be on its way then, to memory of the request's.

    Args:
      store: a `CachedStore`, with its slots reached; it keeps the crossing. keys: int64 [*], distinct.
      count: of them that are looked up. rows: int32 [count], -1 for those that are not in the cache.
      lean: whether rows come so.

    Raises:
      CallError: RESOURCE_EXHAUSTED.
    """
    request, table, every = store.request, store.table, store.own["every"]
    state, numbers = store.state(), store.numbers()
    homes = request.temporary("int32", count)
    absent, new = cache_rows.find_homes(keys.front(count), rows, every, homes)
    refused = store._refuse(keys, count, homes, new) if new else 0
    known, coming, new = absent - new, absent - refused, new - refused
    leaves = host_growth.make_room(store, state, numbers, new, homes)
    going = None if lean else _choose(store, state, numbers, coming, leaves)
    crossing = store.crossing = staged_crossing.make(store, store.columns(), lean)
    if known:
        crossing.ask(homes, known)
    # What comes lean is on its way by now: mostly nothing goes for it.
    leaving, pushed, whole, written = going or _choose(store, state, numbers, coming, leaves)
    out, others = 0 if pushed is None else pushed.size, 0 if leaving is None else leaving.size
    crossing.take_room(out, coming)
    runs = index_rows.scratch_bytes(store.capacity, store.index.shape[0]) if others else 0
    plan = Plan(
        state, numbers, homes, leaving, pushed, whole, written, lean, leaves, keys=request.temporary("int64", coming),
        rows=request.temporary("int32", coming), places=request.temporary("int32", coming),
        sources=request.temporary("int32", coming), new_keys=request.temporary("int64", new),
        new_homes=request.temporary("int32", new), new_rows=request.temporary("int32", new),
        values=request.temporary("float32", new, table.dim),
        vacant=host_growth.vacant(store, numbers, leaves, new), out_keys=request.temporary("int64", others),
        where=request.temporary("int32", out), runs=request.temporary("uint8", runs),
        picked=[request.temporary("int32", coming) for _ in range(3)])
    most = 0 if leaves is None else leaves.marks.size
    request.reserve(scan.state_bytes(store.capacity) + scan.state_bytes(most) + sum(
        2 * scan.state_bytes(n) + sorted_bytes(n) for n in (out, out, coming)) + (1 << 14))
    return plan


def _choose(store: Any, state: State, numbers: Any, coming: int, leaves: Optional[LeavingTable]
            ) -> Tuple[Optional[Array], Optional[Array], Optional[Array], int]:
    """(`leaving`, `pushed`, `whole`, `written`) of a `Plan` by which so many keys come; leaves: its `table`."""
    cached = None if leaves is None else leaves.cached
    lacking = coming - state.free - (store.capacity - state.given) - (0 if cached is None else cached.size)
    if lacking <= 0:
        return cached, None, None, 0
    pushed = push_out.of_cache(store, state, lacking, coming, cached)
    leaving = pushed if cached is None else push_out.together(store, state.given, pushed, cached)
    if not numbers[cache.LEAN]:
        return leaving, pushed, None, int(pushed.size)
    whole = store.request.temporary("int32", pushed.size)
    return leaving, pushed, whole, cache_rows.whole_homes_of(pushed, store.own["home"], whole)

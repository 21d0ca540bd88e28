"""Which rows leave a cache, and which leave the table for good where it forgets."""
from typing import Any, NamedTuple, Optional

from sok1x.cuda_kernels import cache_rows, fill, index_rows, lowest_scores
from sok1x.cuda_kernels.arrays import Array
from sok1x.cuda_kernels.cache_rows import Moves
from sok1x.cuda_kernels.lowest_scores import Candidates
from sok1x.graph_ops.bridge import pins
from sok1x.graph_ops.bridge.errors import RESOURCE_EXHAUSTED, CallError
from sok1x.graph_ops.stores import cache, eviction
from sok1x.graph_ops.stores.eviction import Leaving, oldest_pinned
from sok1x.graph_ops.stores.forgetting import LFU, SHARE
from sok1x.graph_ops.stores.host_column import Rows


def of_cache(store: Any, state: Any, lacking: int, coming: int, besides: Optional[Array]) -> Any:
    """Rows of the cache that go back to the host's memory, int32 [E], ascending; nothing has changed.

    At least a sixteenth of the cache goes, if so much may, by the cache's strategy; of equal scores the lowest rows.
    None that a step in flight has looked up.

    Args:
      store: a `CachedStore`, locked for writing. state: its numbers.
      lacking: at least so many. coming: for the message, keys that come into the cache.
      besides: rows of the cache that leave the table, and are none of these; or None.

    Raises:
      CallError: RESOURCE_EXHAUSTED where fewer may go.
    """
    own = store.own
    used = own["used"].front(state.given)
    scores = own["frequency"].front(state.given) if store.table.cache.strategy == LFU else used
    if besides is not None:
        used = _copied(store.request, used)
        cache_rows.mark_homes(besides, -1, used)
    candidates = Candidates(scores, used, oldest_pinned(store, state.tick))
    found = lowest_scores.count(candidates)
    there = found[0]
    if there < lacking:
        in_use = state.given - state.free - (0 if besides is None else besides.size)
        raise CallError(RESOURCE_EXHAUSTED, _too_few(store, in_use - there, coming))
    return eviction.listed(store.request, candidates, found, min(there, max(lacking, store.capacity // SHARE)))


def _too_few(store: Any, stay: int, coming: int) -> str:
    pinned = pins.of(store.request, store.place_of_rows)
    return ("{}: its cache has {} rows, too few: {} of them belong to this batch or to others of steps in flight ({}), "
            "and {} more keys of the batch must come into it; no row was changed. Use smaller batches or fewer steps "
            "at once, a larger cache (max_hbm_for_vectors, cache_rows), or train on more ranks").format(
                store.label, store.capacity, stay, 0 if pinned is None else pinned.steps, coming)


class LeavingTable(NamedTuple):
    """Rows that leave the table, and what is known of all.

    Attributes:
      leaving: their numbers in the host's memory, and memory for their keys and values.
      marks: int64 [given], -1 where a row is free: on the request's device. gone: int64, for as many as leave.
      crosses: memory through which what is told of them goes where the host's is not pinned; else None.
      cached: int32, ascending, the rows that they have in the cache; None: they have none there. lean: how many of
        these are.
    """

    leaving: Leaving
    marks: Any
    gone: Any
    crosses: Optional[Array]
    cached: Optional[Array]
    lean: int


def of_table(store: Any, state: Any, numbers: Any, lacking: int, new: int, homes: Any) -> LeavingTable:
    """Rows that leave the table: those that would without a cache. Where they are in it they leave it too.

    Args:
      store, state: as for `of_cache`. numbers: what `tiers` has.
      lacking: at least so many. new: for the message, keys that need rows.
      homes: int32, of the batch's keys that are not in the cache, negative ones left out: these stay.

    Raises:
      CallError: RESOURCE_EXHAUSTED where fewer may leave.
    """
    request, own, given = store.request, store.own, int(numbers[cache.GIVEN])
    where = store.homes_in_use()
    marks = _of_all(store, "used", given, where)
    cache_rows.mark_homes(homes, state.tick, marks)  # as the lookup has marked those that are in the cache
    rows = eviction.lowest(store, lambda name: marks if name == "used" else _of_all(store, name, given, where),
                           state.tick, lacking, new)
    cached, lean = _in_cache(store, where, rows, marks), 0
    every = own["every"]
    scratch = request.temporary("uint8", index_rows.scratch_bytes(given, every.shape[0]))
    leaving = Leaving(rows, scratch, *store.memory_for_leaving(rows.size))
    if cached is not None and numbers[cache.LEAN]:
        lean = cached.size - cache_rows.whole_homes_of(cached, own["home"], request.temporary("int32", cached.size))
    if cached is not None and leaving.values is not None:  # which are read where the others are
        there = request.temporary("int32", cached.size)
        cache_rows.homes_of(cached, own["home"], there)
        store.columns()["rows"][0].write(own["rows"], Rows(cached, there))
    told = [store.columns()[name][0] for name in ("used", *(["rows"] if leaving.values is not None else []))]
    crosses = None if all(column.reachable for column in told) else request.temporary(
        "uint8", rows.size * (max(column.row_bytes for column in told) + 4))
    return LeavingTable(leaving, marks, request.temporary("int64", rows.size), crosses, cached, lean)


def _of_all(store: Any, name: str, given: int, where: Array) -> Array:
    """A column's int64 [given] in the request's temporary memory, of rows in the cache what that has.

    Args:
      where: int32, of each row of the cache its row in the host's memory, or -1.
    """
    column, array = store.columns()[name]
    found = column.on_device(given)  # on a GPU a copy
    if store.request.gpu is None:
        found = _copied(store.request, found)
    cache_rows.move(Moves(array, found, None, where), over_bus=False)
    return found


def _in_cache(store: Any, where: Array, rows: Array, marks: Array) -> Optional[Array]:
    """The rows of the cache, int32, ascending, whose keys have `rows` in the host's memory; None where there are none.

    Args:
      where: as for `_of_all`. marks: int64 [given], scratch memory: numbers from 0 on stay such.
    """
    found = store.request.temporary("int64", where.size)
    fill.fill_int64(found, -1)
    cache_rows.mark_homes(where, 1, marks)
    cache_rows.mark_homes(rows, 0, marks)
    cache_rows.move(Moves(marks, found, where), over_bus=False)
    return _zeros(store.request, found)


def together(store: Any, given: int, *some: Array) -> Array:
    """Distinct rows of the cache, each int32, ascending, as one; given: rows of it that have been given out."""
    marks = store.request.temporary("int64", given)
    fill.fill_int64(marks, -1)
    for rows in some:
        cache_rows.mark_homes(rows, 0, marks)
    found = _zeros(store.request, marks)
    assert found is not None
    return found


def _zeros(request: Any, marks: Array) -> Optional[Array]:
    """Where int64 marks are 0, int32, ascending; None where they are nowhere."""
    candidates = Candidates(marks, marks, 1)
    found = lowest_scores.count(candidates)
    return eviction.listed(request, candidates, found, found[0]) if found[0] else None


def _copied(request: Any, array: Array) -> Array:
    """A copy of int64 [n] in the request's temporary memory."""
    made: Array = request.temporary("int64", array.size)
    cache_rows.move(Moves(array, made), over_bus=False)
    return made

"""Which rows leave a cache, and which leave the table for good where it forgets."""
from typing import Any, NamedTuple, Tuple

from sok1x.cuda_kernels import cache_rows, index_rows, lowest_scores
from sok1x.cuda_kernels.lowest_scores import MOST, Candidates
from sok1x.graph_ops.bridge import pins
from sok1x.graph_ops.bridge.errors import RESOURCE_EXHAUSTED, CallError
from sok1x.graph_ops.stores.eviction import Leaving, oldest_pinned
from sok1x.graph_ops.stores.forgetting import LFU, SHARE, TTL


def of_cache(store: Any, state: Any, lacking: int, coming: int) -> Any:
    """Rows of the cache that go back to the host's memory, int32 [E], ascending; nothing has changed.

    At least a sixteenth of the cache goes, if so much may, by the cache's strategy; of equal scores the lowest rows.
    None that a step in flight has looked up.

    Args:
      store: a `CachedStore`, locked for writing. state: its numbers.
      lacking: at least so many. coming: for the message, keys that come into the cache.

    Raises:
      CallError: RESOURCE_EXHAUSTED where fewer may go.
    """
    own = store.own
    scores = own["frequency"] if store.table.cache.strategy == LFU else own["used"]
    candidates = Candidates(scores.front(state.given), own["used"].front(state.given),
                            oldest_pinned(store, state.tick))
    there, lowest, highest = lowest_scores.count(candidates)
    if there < lacking:
        raise CallError(RESOURCE_EXHAUSTED, _too_few(store, state, there, coming))
    return _lowest(store, candidates, (there, lowest, highest), min(there, max(lacking, store.capacity // SHARE)))


def _too_few(store: Any, state: Any, there: int, coming: int) -> str:
    pinned = pins.of(store.request, store.place_of_rows)
    in_use = state.given - state.free
    return ("{}: its cache has {} rows, too few: {} of them belong to this batch or to others of steps in flight ({}), "
            "and {} more keys of the batch must come into it; no row was changed. Use smaller batches or fewer steps "
            "at once, a larger cache (max_hbm_for_vectors, cache_rows), or train on more ranks").format(
                store.label, store.capacity, in_use - there, 0 if pinned is None else pinned.steps, coming)


class LeavingTable(NamedTuple):
    """Rows in the host's memory that leave the table, and what is known of all.

    Attributes:
      leaving: their row numbers there, and memory for their keys and values.
      marks: int64 [given], -1 where a row is free: on the request's device. gone: int64, for as many as leave.
    """

    leaving: Leaving
    marks: Any
    gone: Any


def of_table(store: Any, given: int, lacking: int, new: int, homes: Any) -> LeavingTable:
    """Rows that leave the table: of those that are not in the cache the ones with the lowest scores.

    Args:
      store: as for `of_cache`. given: rows in the host's memory that have been given out.
      lacking: at least so many. new: for the message, keys that need rows.
      homes: int32, rows that stay, negative ones left out.

    Raises:
      CallError: RESOURCE_EXHAUSTED where fewer may leave.
    """
    table, forgetting, request, own = store.table, store.table.forgetting, store.request, store.own
    columns = store.columns()
    marks = _copied(request, columns["used"][0].on_device(given))
    scores, most = marks, MOST
    if forgetting.strategy == LFU:
        scores = columns["frequency"][0].on_device(given)
    elif forgetting.strategy == TTL:
        scores, most = columns["stamps"][0].on_device(given), int(store.clock.read()) - forgetting.time_to_live
    cache_rows.mark_homes(store.homes_in_use(), MOST, marks)  # those whose keys are in the cache
    cache_rows.mark_homes(homes, MOST, marks)
    candidates = Candidates(scores, marks, MOST, most)
    there, lowest, highest = lowest_scores.count(candidates)
    if there < lacking:
        raise CallError(RESOURCE_EXHAUSTED, (
            "{} is full: it may have {} rows (max_capacity), and the batch has {} new keys. {} rows must leave "
            "(evict_strategy '{}'), and {} may: none that is in the cache of {} rows does; no row was changed. Raise "
            "max_capacity, use smaller batches, or train on more ranks").format(
                store.label, table.most_rows, new, lacking, forgetting.strategy, there, store.capacity))
    wanted = there if forgetting.strategy == TTL else min(there, max(lacking, table.most_rows // SHARE))
    rows = _lowest(store, candidates, (there, lowest, highest), wanted)
    every = own["every"]
    scratch = request.temporary("uint8", index_rows.scratch_bytes(given, every.shape[0]))
    return LeavingTable(Leaving(rows, scratch, *store.memory_for_leaving(wanted)), marks,
                        request.temporary("int64", wanted))


def _copied(request: Any, array: Any) -> Any:
    """A copy of int64 [n] in the request's temporary memory."""
    made = request.temporary("int64", array.size)
    cache_rows.move(cache_rows.Moves(array, made), over_bus=False)
    return made


def _lowest(store: Any, candidates: Candidates, found: Tuple[int, int, int], wanted: int) -> Any:
    """The `wanted` rows with the lowest scores, int32, ascending; found: as `lowest_scores.count` says."""
    request, (there, lowest, highest) = store.request, found
    rows = request.temporary("int32", wanted)
    below, ties = MOST + 1, 0
    if wanted < there:
        digits = request.temporary("int64", 1 << lowest_scores.BITS)
        below, ties = lowest_scores.threshold(candidates, lowest, highest, wanted, digits)
    lowest_scores.list_lowest(candidates, below, ties, rows)
    return rows

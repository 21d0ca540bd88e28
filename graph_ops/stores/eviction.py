"""Which rows of a table leave, and how: their keys go, and their numbers are free."""
from typing import Any, Callable, NamedTuple, Optional, Tuple

from sok1x.cuda_kernels import gather, index_rows, lowest_scores, row_use
from sok1x.cuda_kernels.arrays import Array
from sok1x.cuda_kernels.lowest_scores import MOST, Candidates
from sok1x.graph_ops.bridge import pins
from sok1x.graph_ops.bridge.errors import RESOURCE_EXHAUSTED, CallError
from sok1x.graph_ops.stores.forgetting import LFU, SHARE, TTL


class Leaving(NamedTuple):
    """Rows that are going to leave, and the memory that this takes.

    Attributes:
      rows: int32 [E], ascending. scratch: `index_rows.scratch_bytes`.
      keys: int64 [E], to be filled. values: float32 [E, D], likewise, or None: nobody asks what they have been.
    """

    rows: Array
    scratch: Array
    keys: Array
    values: Optional[Array]


def oldest_pinned(store: Any, tick: int) -> int:
    """Rows that lookups have asked for since this tick may be in the hands of steps in flight; `store`'s is one."""
    pinned = pins.of(store.request, store.place_of_rows)
    return tick - (0 if pinned is None else pinned.since)


def choose(store: Any, tick: int, given: int, lacking: int, new: int) -> Leaving:
    """The rows that leave where at least `lacking` must. Nothing is changed.

    Args:
      store: a `ForgetfulStore`, locked for writing. given: rows that have been given out, free ones too.
      tick, lacking, new: as for `lowest`.

    Raises:
      CallError: RESOURCE_EXHAUSTED where fewer may leave.
    """
    return leaving(store, lowest(store, lambda name: store.own[name].front(given), tick, lacking, new))


def lowest(store: Any, of_all: Callable[[str], Array], tick: int, lacking: int, new: int) -> Array:
    """The numbers of the rows that leave where at least `lacking` must, int32, ascending. Nothing is changed.

    Args:
      store: as for `choose`. of_all: what "used", "frequency" or "stamps" is of all rows that have been given out.
      tick: of this lookup. new: for the message, keys that need rows.

    Raises:
      CallError: RESOURCE_EXHAUSTED where fewer may leave.
    """
    table, forgetting = store.table, store.table.forgetting
    used = scores = of_all("used")
    most = MOST
    if forgetting.strategy == LFU:
        scores = of_all("frequency")
    elif forgetting.strategy == TTL:
        most, scores = int(store.clock.read()) - forgetting.time_to_live, of_all("stamps")
    candidates = Candidates(scores, used, oldest_pinned(store, tick), most)
    found = lowest_scores.count(candidates)
    there = found[0]
    if there < lacking:
        raise CallError(RESOURCE_EXHAUSTED, _too_few(store, candidates, there, lacking, new))
    # All that are past their time; else a share, so that most steps need not look.
    wanted = there if forgetting.strategy == TTL else min(there, max(lacking, table.most_rows // SHARE))
    return listed(store.request, candidates, found, wanted)


def listed(request: Any, candidates: Candidates, found: Tuple[int, int, int], wanted: int) -> Array:
    """The `wanted` rows with the lowest scores, int32, ascending; found: as `lowest_scores.count` says."""
    there, least, highest = found
    rows = request.temporary("int32", wanted)
    below, ties = MOST + 1, 0
    if wanted < there:
        digits = request.temporary("int64", 1 << lowest_scores.BITS)
        below, ties = lowest_scores.threshold(candidates, least, highest, wanted, digits)
    lowest_scores.list_lowest(candidates, below, ties, rows)
    return rows


def leaving(store: Any, rows: Any) -> Leaving:
    """The memory that it takes to have rows int32 [E] leave, which may be filled later."""
    scratch = store.request.temporary("uint8", index_rows.scratch_bytes(store.capacity, store.index.shape[0]))
    return Leaving(rows, scratch, *store.memory_for_leaving(rows.size))


def take_out(store: Any, leaving: Leaving) -> None:
    """Has the rows leave: their keys are in `leaving.keys`, and their numbers free but not yet listed."""
    rows = leaving.rows
    if leaving.values is not None:
        gather.gather(store.rows, rows, leaving.values)
    index_rows.take_out(store.index, rows, store.capacity, leaving.scratch, leaving.keys)
    row_use.free(rows, store.own["used"])


def _too_few(store: Any, candidates: Candidates, there: int, lacking: int, new: int) -> str:
    table, forgetting = store.table, store.table.forgetting
    in_use = lowest_scores.count(candidates._replace(oldest=MOST, most=MOST))[0]
    unpinned = lowest_scores.count(candidates._replace(most=MOST))[0]
    pinned = pins.of(store.request, store.place_of_rows)
    young = advice = ""
    if forgetting.strategy == TTL:
        young = ", and {} have changed in the last {} steps (time_to_live)".format(
            unpinned - there, forgetting.time_to_live)
    if unpinned > there:
        advice = (", set a shorter time_to_live, take an optimizer that moves the rows of the batch alone (others "
                  "change all rows at each step)")
    return ("embedding table '{}' is full on {}: {} of {} rows (max_capacity) are in use and the batch has {} "
            "new keys. {} more rows must leave (evict_strategy '{}'), and {} may: {} are pinned, looked up by this "
            "batch or by steps in flight ({}){}; no row was changed. Use smaller batches or fewer steps at once, raise "
            "max_capacity{}, or train on more ranks").format(
                table.name, store.world.name, in_use, table.most_rows, new, lacking, forgetting.strategy, there,
                in_use - unpinned, 0 if pinned is None else pinned.steps, young, advice)

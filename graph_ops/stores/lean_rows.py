"""Rows of a cache that are lean: they came without their optimizers' slots, for lookups that nobody trains by.

That is how evaluations look up that have no argument to say so (SOK's `lookup_sparse`). Of a lean row the cache has
what the host's memory has, and less: where it leaves, nothing of its values is written. Before it changes its slots
come (`CachedStore.about_to_change`); until then nothing reads what the cache has in their place.

When some runs in a row have looked a table up and changed nothing, the next lookups have rows come lean. That is a
guess: where it is wrong, rows cross in two parts in place of one.
"""
import dataclasses
from typing import Any, Dict, Optional

from sok1x.cuda_kernels import cache_rows
from sok1x.cuda_kernels.arrays import Array
from sok1x.graph_ops.stores import cache
from sok1x.graph_ops.stores.crossing import is_fetched
from sok1x.graph_ops.stores.host_column import Rows, by_home, sorted_bytes

VARIABLES = ("rows", "count", "used", "home", "tiers")  # of the table, by which slots come
RUNS = 4  # without a change, until rows come lean
_TABLES_REMEMBERED = 1000


@dataclasses.dataclass
class _Heard:
    """Of a table in a session: the last run that has looked it up, whether that has changed it, and how many before it
    have not, in a row."""

    run: int = 0
    changed: bool = True
    unchanged: int = 0


_heard: Dict[Any, _Heard] = {}


def _of(store: Any) -> _Heard:
    key = store.request.session, store.table.name
    if key not in _heard and len(_heard) >= _TABLES_REMEMBERED:  # of sessions long closed
        _heard.clear()
    return _heard.setdefault(key, _Heard())


def note_lookup(store: Any) -> bool:
    """Hears of a training lookup. Returns whether rows are to come lean for it."""
    heard, run = _of(store), store.request.step
    if run != heard.run:
        heard.unchanged = 0 if heard.changed else heard.unchanged + 1
        heard.run, heard.changed = run, False
    return heard.unchanged >= RUNS


def note_change(store: Any) -> None:
    """Hears that rows which have been looked up change."""
    _of(store).changed = True


def take_slots(store: Any, rows: Optional[Array]) -> None:
    """Has the slots of lean rows come.

    Args:
      store: a `CachedStore` with its slots reached, and `VARIABLES`. rows: as for `Store.about_to_change`.

    Raises:
      CallError: RESOURCE_EXHAUSTED; nothing has changed.
    """
    request, own = store.request, store.own
    columns, numbers = store.columns(), store.numbers()
    given = int(numbers[cache.GIVEN])
    store.tier.reserve(given, given)  # of slots that are new
    n = int(own["count"].read()) if rows is None else rows.size
    took, where = request.temporary("int32", n), request.temporary("int32", n)
    slots = [pair for name, pair in columns.items() if not is_fetched(name, True) and is_fetched(name, False)]
    scratch = None
    if not all(column.reachable for column, _ in slots):
        scratch = request.temporary("uint8", n * (max(column.row_bytes for column, _ in slots) + 4))
    request.reserve(sorted_bytes(n) + (1 << 12))
    found = cache_rows.take_lean(rows, own["used"], own["home"], took, where)
    if not found:
        return
    coming = by_home(request, Rows(took, where), columns["rows"][0].rows)
    for column, array in slots:
        column.read(array, coming, scratch)
    numbers[cache.LEAN] -= found
    own["tiers"].write(numbers)

"""A batch's rows on their way between a cache and the host's memory, one variable after the other.

So on the host, and where a GPU does not reach the host's memory. Else they go by `staged_crossing`.
"""
from typing import Any, Dict, Optional, Tuple

from sok1x.cuda_kernels.arrays import Array
from sok1x.graph_ops.stores.host_column import HostColumn, Rows, by_home

NUMBERS = ("stamps", "used", "frequency")  # what a row has that is none of its values: those it has besides, and slots

Columns = Dict[str, Tuple[HostColumn, Any]]


def is_fetched(name: str, lean: bool) -> bool:
    """Whether a column's rows come into the cache; name: as in `Columns`. lean: as for `Crossing`."""
    if name == "used":  # lookups write that anyway
        return False
    return name == "rows" or name in NUMBERS or not lean


class Crossing:
    """See the module's text. `ask` and `take_room` come while nothing has changed yet; then nothing fails.

    Args:
      store: a `CachedStore`. columns: of all that a row has, each with memory for all rows that have been given out.
      lean: whether rows come without their slots (lean_rows.py).
    """

    def __init__(self, store: Any, columns: Columns, lean: bool) -> None:
        self.request, self.columns, self._lean = store.request, columns, lean
        self._scratch: Optional[Array] = None

    def ask(self, homes: Array, known: int) -> None:
        """Which rows come: homes int32 [n], those of the batch's keys; `known` of them, not none, are not negative.

        Raises:
          CallError: there is no memory.
        """

    def take_room(self, out: int, coming: int) -> None:
        """Takes all memory but for sorting, for `out` rows that go, and `coming` that come or begin.

        Raises:
          CallError: there is no memory.
        """
        if self.request.gpu is not None:
            widest = max(column.row_bytes for column, _ in self.columns.values())
            self._scratch = self.request.temporary("uint8", max(out, coming) * (widest + 4))

    def leave(self, rows: Rows, whole: Rows, written: int) -> None:
        """Takes rows out of the cache.

        Args:
          rows: each has a home. whole: the same, without the home of those that are lean: what values they have the
            host's memory has too. written: how many of these have one.
        """
        limit = self.columns["rows"][0].rows
        values = numbers = by_home(self.request, rows, limit)
        if whole is not rows:
            values = by_home(self.request, whole, limit)
        for name, (column, array) in self.columns.items():
            column.write(array, numbers if name in NUMBERS else values, self._scratch)

    def start(self) -> None:
        """What leaves has left: rows may move from now on."""

    def come(self, rows: Array, coming: Rows) -> None:
        """Has the rows that have been asked for come into the cache, also to places of those that have left.

        Args:
          rows: int32 [n], of all keys of the batch. coming: of those that come or begin, whose homes are negative.
        """
        coming = by_home(self.request, coming, self.columns["rows"][0].rows)
        for name, (column, array) in self.columns.items():
            if is_fetched(name, self._lean):
                column.read(array, coming, self._scratch)

    def end(self) -> None:
        """Nothing is at work any more with what goes with the request."""

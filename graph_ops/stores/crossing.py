"""A batch's rows on their way between a cache and the host's memory, one variable after the other.

So on the host, and where a GPU does not reach the host's memory. Else they go by `staged_crossing`.
"""
from typing import Any, Dict, Optional, Tuple

from sok1x.cuda_kernels.arrays import Array
from sok1x.graph_ops.stores.host_column import HostColumn, Rows, by_home

NOT_FETCHED = ("used",)   # what lookups write anyway

Columns = Dict[str, Tuple[HostColumn, Any]]


class Crossing:
    """See the module's text. `ask` and `take_room` come while nothing has changed yet; then nothing fails.

    Args:
      store: a `CachedStore`. columns: of all that a row has, each with memory for all rows that have been given out.
    """

    def __init__(self, store: Any, columns: Columns) -> None:
        self.request, self.columns = store.request, columns
        self._scratch: Optional[Array] = None

    def ask(self, homes: Array, known: int) -> None:
        """Which rows come: homes int32 [n], those of the batch's keys; `known` of them are not negative."""

    def take_room(self, out: int, coming: int) -> None:
        """Takes all memory but for sorting, for `out` rows that go, and `coming` that come or begin.

        Raises:
          CallError: there is no memory.
        """
        if self.request.gpu is not None:
            widest = max(column.row_bytes for column, _ in self.columns.values())
            self._scratch = self.request.temporary("uint8", max(out, coming) * (widest + 4))

    def leave(self, rows: Rows) -> None:
        """Takes rows out of the cache; rows: each has a home."""
        rows = by_home(self.request, rows, self.columns["rows"][0].rows)
        for column, array in self.columns.values():
            column.write(array, rows, self._scratch)

    def start(self) -> None:
        """What leaves has left: rows may move from now on."""

    def come(self, rows: Array, coming: Rows) -> None:
        """Has the rows that have been asked for come into the cache, also to places of those that have left.

        Args:
          rows: int32 [n], of all keys of the batch. coming: of those that come or begin, whose homes are negative.
        """
        coming = by_home(self.request, coming, self.columns["rows"][0].rows)
        for name, (column, array) in self.columns.items():
            if name not in NOT_FETCHED:
                column.read(array, coming, self._scratch)

    def end(self) -> None:
        """Nothing is at work any more with what goes with the request."""

"""The owner's end of a gradient: one sum for each of its rows that were looked up, `tf.IndexedSlices`."""
from typing import Any

from sok1x.cuda_kernels import row_numbers
from sok1x.graph_ops.exchanges.layouts import Layout
from sok1x.graph_ops.exchanges.lookup import Gradient
from sok1x.graph_ops.stores import known_distinct

VALUES, INDICES = 0, 1  # outputs of a backward op; the second only where `rows_known` is not set


class Kept:
    """Which of a lookup's rows its gradient has: all, or those of the keys that have a row.

    Args:
      rows: int32 [u], -1 for a key without a row. rows_known: whether there is none without.

    Attributes:
      count: how many. rows: int32 [count], at the front of an `Array`.
    """

    def __init__(self, request: Any, rows: Any, rows_known: bool) -> None:
        self._request, self._number = request, None
        self.count, self.rows = rows.size, rows
        if rows_known:
            return
        self.rows, number = request.temporary("int32", rows.size), request.temporary("int32", rows.size)
        self.count = row_numbers.compact(rows, self.rows, number)
        if self.count != rows.size:
            self._number = number

    def places(self, inverse: Any) -> Any:
        """inverse int32 [length], which of the lookup's rows each position has, renumbered: -1 where it was dropped."""
        if self._number is None:
            return inverse
        renumbered = self._request.temporary("int32", inverse.size)
        row_numbers.look_up(self._number, inverse, renumbered)
        return renumbered


def sum_by_row(back: Gradient, gradient: Any, layout: Layout, places: Any) -> None:
    """Writes the values float32 [u, D] and, where they are not known, their indices int32 [u], distinct.

    Args:
      gradient: float32 or float16, of embeddings of this layout.
      places: int32, which of the lookup's `rows` each position has. Rows without a number are dropped.
    """
    request, known = back.request, back.config.rows_known
    kept = Kept(request, back.saved.rows, known)
    if not known:
        indices = request.output(INDICES, "int32", (kept.count,))
        row_numbers.look_up(kept.rows, None, indices)
        known_distinct.note(request, back.table, indices)
    places = kept.places(places)
    values = request.output(VALUES, "float32", (kept.count, back.table.dim))
    layout.sum(gradient, places, kept.count, values)

"""A sparse gradient as a graph hands it to an op that moves a table's rows: values [n, D] of n row numbers.

Whoever writes the graph may put anything there, or feed it. A lookup's own gradient has distinct rows of its table,
which costs nothing to know: the graph shows where the row numbers come from, and that they are the very memory that the
lookup's ops have written in this run, and nothing fed, their address does. All others are checked before anything is
written, and equal ones added up, as TensorFlow does.
"""
import copy
from typing import Any

from sok1x.cuda_kernels import row_numbers, segment_sum
from sok1x.graph_ops.bridge.errors import INVALID_ARGUMENT, CallError
from sok1x.graph_ops.stores import kept_sums, known_distinct, row_checks
from sok1x.graph_ops.stores.distinct import make_distinct
from sok1x.graph_ops.stores.table import Table


class RowGradients:
    """The first two inputs of a request, gradients float32 [n, D] and rows [n], ready for a kernel.

    Args:
      config: the operation's, with `table`, `held`, and `from_lookup`: whether the graph shows that they are a lookup's
        gradient as it was made.

    Attributes:
      values: float32 [u, D]. rows: int32 [u], distinct rows of the table.
      from_lookup: whether they are a lookup's gradient as it was made, whose rows have been stamped.

    Raises:
      CallError: INVALID_ARGUMENT, before anything is written.
    """

    def __init__(self, request: Any, config: Any, world: Any) -> None:
        table: Table = config.table
        values, rows = request.inputs[:2]
        if len(rows.shape) != 1 or values.shape != (rows.size, table.dim) or values.dtype != "float32":
            raise CallError(INVALID_ARGUMENT, (
                "embedding table '{}' on {}: got gradients of shape {} for {} rows, expected [{}, {}] of float32 "
                "for rows of shape [{}], got {} for {}; nothing was changed").format(
                    table.name, world.name, list(values.shape), rows.size, rows.size, table.dim, rows.size,
                    values.dtype, list(rows.shape)))
        kept_sums.settle(request, table, world)
        self.values, self.rows = values, rows
        self.from_lookup = config.from_lookup and (not rows.size or known_distinct.noted(request, table, rows))
        if not self.from_lookup:
            self._add_up(request, table, row_checks.checked(request, config, world, rows))

    def without_rows(self) -> "RowGradients":
        """The same of no row."""
        made = copy.copy(self)
        made.values, made.rows = self.values.front(0), self.rows.front(0)
        return made

    def _add_up(self, request: Any, table: Table, rows: Any) -> None:
        inverse = request.temporary("int32", rows.size)
        distinct, count = make_distinct(request, rows, inverse)
        self.rows = request.temporary("int32", count)
        row_numbers.narrow(distinct, self.rows)
        if count < rows.size:
            terms, self.values = self.values, request.temporary("float32", count, table.dim)
            segment_sum.segment_sum(terms, inverse, self.values)

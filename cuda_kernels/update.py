"""Rows of a table moved against their gradients (update.cu)."""
from .arrays import Array, need, need_rows, width
from .backend import INT64, POINTER, family, kernels, row_lanes

declare = family(__name__)
declare("descend", None, POINTER, INT64, POINTER, INT64, POINTER, INT64, POINTER,
        threads=lambda a: a[3] * row_lanes(a[1]))


def descend(values: Array, rows: Array, rate: Array, table: Array) -> None:
    """Gradient descent: table[rows[i]] -= rate * values[i], the product rounded before the difference.

    Args:
        values: float32 [n, dim].
        rows: int32 [n], distinct rows of the table; those outside it are left out.
        rate: float32 [], the learning rate.
        table: float32 [V, dim], changed.
    """
    n, dim, table_rows = rows.size, width(table), table.shape[0]
    need("rows", rows, "int32", n)
    need_rows("values", values, "float32", n, dim)
    need("rate", rate, "float32", 1)
    need_rows("table", table, "float32", table_rows, dim)
    kernels.descend(values.pointer, dim, rows.pointer, n, rate.pointer, table_rows, table.pointer)

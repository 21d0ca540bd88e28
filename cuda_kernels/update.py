"""Rows of a table moved against their gradients (update.cu)."""
from .backend import INT64, POINTER, family, kernels, row_lanes

declare = family(__name__)
declare("descend", None, POINTER, INT64, POINTER, INT64, POINTER, INT64, POINTER,
        threads=lambda a: a[3] * row_lanes(a[1]))


def descend(values: int, dim: int, rows: int, n: int, rate: int, table_rows: int, table: int) -> None:
    """Gradient descent: table[rows[i]] -= *rate * values[i], the product rounded before the difference.

    Args:
        values: pointer to float32 [n, dim].
        dim: floats of a row.
        rows: pointer to int32 [n], distinct rows of the table; those outside it are left out.
        n: number of rows.
        rate: pointer to float32 [], the learning rate.
        table_rows: rows of the table.
        table: pointer to float32 [table_rows, dim], changed.
    """
    kernels.descend(values, dim, rows, n, rate, table_rows, table)

"""Rows of a table moved against their gradients (update.cu)."""
from .host import FLOAT, INT64, POINTER, declare, kernels

declare("descend", None, POINTER, INT64, POINTER, INT64, FLOAT, POINTER)


def descend(values, dim, rows, n, rate, table):
    """Gradient descent: table[rows[i]] -= rate * values[i], the product rounded before the difference.

    Args:
        values: pointer to float32 [n, dim].
        dim: floats of a row.
        rows: pointer to int32 [n], distinct rows of the table.
        n: number of rows.
        rate: the learning rate.
        table: pointer to float32 [rows, dim], changed.
    """
    kernels.descend(values, dim, rows, n, rate, table)

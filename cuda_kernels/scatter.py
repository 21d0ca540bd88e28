"""Rows written into a table by row number (scatter.cu)."""
from .host import INT64, POINTER, declare, kernels

declare("scatter", None, POINTER, INT64, POINTER, INT64, POINTER)


def scatter(values, dim, rows, n, table):
    """Writes rows: table[rows[i]] = values[i]; negative rows are skipped, of equal rows the last wins.

    Args:
        values: pointer to float32 [n, dim].
        dim: floats a row (D).
        rows: pointer to int32 [n].
        n: number of rows to write.
        table: pointer to float32 [*, dim], changed.
    """
    kernels.scatter(values, dim, rows, n, table)

"""Rows of a table by row number (gather.cu)."""
from .backend import INT64, POINTER, family, kernels, row_lanes

declare = family(__name__)
# A team of threads copies four rows at a time (gather.cu).
declare("gather", None, POINTER, INT64, POINTER, INT64, POINTER, threads=lambda a: (a[3] + 3) // 4 * row_lanes(a[1]))
declare("gather_through", None, POINTER, INT64, POINTER, POINTER, INT64, POINTER,
        threads=lambda a: (a[4] + 3) // 4 * row_lanes(a[1]))


def gather(table, dim, index, n, out):
    """Copies rows: out[i] = table[index[i]], zeros for a negative index.

    Args:
        table: pointer to float32 [*, dim].
        dim: floats a row (D).
        index: pointer to int32 [n].
        n: number of rows to copy.
        out: pointer to float32 [n, dim].
    """
    kernels.gather(table, dim, index, n, out)


def gather_through(table, dim, rows, inverse, n, out):
    """Copies the rows of distinct keys to all their places: out[i] = table[rows[inverse[i]]], zeros for a
    negative row.

    Args:
        table: pointer to float32 [*, dim].
        dim: floats a row (D).
        rows: pointer to int32 [U], the row of each distinct key.
        inverse: pointer to int32 [n], each in [0, U).
        n: number of rows to copy.
        out: pointer to float32 [n, dim].
    """
    kernels.gather_through(table, dim, rows, inverse, n, out)

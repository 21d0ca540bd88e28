"""Rows written into a table by row number (scatter.cu)."""
from .backend import INT64, POINTER, current, family, kernels, row_lanes

declare = family(__name__)
declare("scatter", None, POINTER, INT64, POINTER, INT64, POINTER)
declare("last_items", None, POINTER, INT64, POINTER, INT64, POINTER, threads=lambda a: a[1])
declare("scatter_last", None, POINTER, INT64, POINTER, INT64, POINTER, POINTER, POINTER,
        threads=lambda a: a[3] * row_lanes(a[1]))


def _places(n: int) -> int:
    return 1 << max(4, (2 * n - 1).bit_length())


def scratch_bytes(n: int) -> int:
    """Bytes that `scatter` of n rows allocates on a GPU."""
    return 4 * (_places(n) + n)


def scatter(values: int, dim: int, rows: int, n: int, table: int) -> None:
    """Writes rows: table[rows[i]] = values[i]; negative rows are skipped, of equal rows the last wins.

    Args:
        values: pointer to float32 [n, dim].
        dim: floats a row (D).
        rows: pointer to int32 [n].
        n: number of rows to write.
        table: pointer to float32 [*, dim], changed.
    """
    gpu = current()
    if gpu is None:
        kernels.scatter(values, dim, rows, n, table)
        return
    places = _places(n)
    last, place = gpu.allocate(4 * places), gpu.allocate(4 * n)
    gpu.clear(last, 4 * places)
    kernels.last_items(rows, n, last, places, place)
    kernels.scatter_last(values, dim, rows, n, last, place, table)

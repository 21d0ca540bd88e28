"""Rows written into a table by row number (scatter.cu)."""
from .arrays import Array, allocated, need, need_rows, width
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


def scatter(values: Array, rows: Array, table: Array) -> None:
    """Writes rows: table[rows[i]] = values[i]; negative rows are skipped, of equal rows the last wins.

    Args:
        values: float32 [n, dim].
        rows: int32 [n].
        table: float32 [V, dim], changed.
    """
    n, dim, gpu = rows.size, width(table), current()
    need("rows", rows, "int32", n)
    need_rows("values", values, "float32", n, dim)
    need("table", table, "float32", table.size)
    if gpu is None:
        kernels.scatter(values.pointer, dim, rows.pointer, n, table.pointer)
        return
    places = _places(n)
    last, place = allocated(gpu, "int32", places), allocated(gpu, "int32", n)
    gpu.clear(last.pointer, 4 * places)
    kernels.last_items(rows.pointer, n, last.pointer, places, place.pointer)
    kernels.scatter_last(values.pointer, dim, rows.pointer, n, last.pointer, place.pointer, table.pointer)

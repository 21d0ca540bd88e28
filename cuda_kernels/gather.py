"""Rows of a table by row number (gather.cu)."""
from typing import NoReturn

from .arrays import Array, described, need, need_rows, width
from .backend import INT64, POINTER, family, kernels, row_lanes

declare = family(__name__)
_TEAM_ROWS = 4  # that a team of threads copies at a time, as in gather.cu


def _threads(rows: int, dim: int) -> int:
    return (rows + _TEAM_ROWS - 1) // _TEAM_ROWS * row_lanes(dim)


for _name in ("gather", "gather_to_half", "gather_half"):
    declare(_name, None, POINTER, INT64, POINTER, INT64, POINTER, threads=lambda a: _threads(a[3], a[1]))
for _name in ("gather_through", "gather_through_to_half"):
    declare(_name, None, POINTER, INT64, POINTER, POINTER, INT64, POINTER,
            threads=lambda a: _threads(a[4], a[1]))

_GATHER = {("float32", "float32"): "gather", ("float32", "float16"): "gather_to_half",
           ("float16", "float16"): "gather_half"}
_THROUGH = {("float32", "float32"): "gather_through", ("float32", "float16"): "gather_through_to_half"}


def gather(table: Array, index: Array, out: Array) -> None:
    """Copies rows: out[i] = table[index[i]], zeros for a negative index.

    Args:
        table: float32 or float16 [*, dim].
        index: int32 [n].
        out: [n, dim] of the table's dtype, or of float16, to which float32 is rounded.
    """
    n, dim = index.size, width(table)
    need("index", index, "int32", n)
    need_rows("out", out, out.dtype, n, dim)
    kernel = _GATHER.get((table.dtype, out.dtype))
    if kernel is None or table.stride:
        _refuse(table, out)
    getattr(kernels, kernel)(table.pointer, dim, index.pointer, n, out.pointer)


def gather_through(table: Array, rows: Array, inverse: Array, out: Array) -> None:
    """Copies the rows of distinct keys to all their places: out[i] = table[rows[inverse[i]]], zeros for a
    negative row.

    Args:
        table: float32 [*, dim].
        rows: int32 [U], the row of each distinct key.
        inverse: int32 [n], each in [0, U).
        out: float32 or float16 [n, dim].
    """
    n, dim = inverse.size, width(table)
    need("rows", rows, "int32", rows.size)
    need("inverse", inverse, "int32", n)
    need_rows("out", out, out.dtype, n, dim)
    kernel = _THROUGH.get((table.dtype, out.dtype))
    if kernel is None or table.stride:
        _refuse(table, out)
    getattr(kernels, kernel)(table.pointer, dim, rows.pointer, inverse.pointer, n, out.pointer)


def _refuse(table: Array, out: Array) -> NoReturn:
    raise TypeError("table, out: got {} and {}, expected adjacent rows of float32, or of float16 in `out` or in "
                    "both".format(described(table), described(out)))

"""Rows of a table by row number (gather.cu)."""
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
_THROUGH = {"float32": "gather_through", "float16": "gather_through_to_half"}


def gather(table: int, dim: int, index: int, n: int, out: int, table_dtype: str = "float32",
           dtype: str = "float32") -> None:
    """Copies rows: out[i] = table[index[i]], zeros for a negative index.

    Args:
        table: pointer to float32 or float16 [*, dim].
        dim: floats a row (D).
        index: pointer to int32 [n].
        n: number of rows to copy.
        out: pointer to float32 or float16 [n, dim].
        table_dtype: the table's dtype.
        dtype: that of `out`: the table's, or float16, to which float32 is rounded.
    """
    getattr(kernels, _GATHER[table_dtype, dtype])(table, dim, index, n, out)


def gather_through(table: int, dim: int, rows: int, inverse: int, n: int, out: int, dtype: str = "float32") -> None:
    """Copies the rows of distinct keys to all their places: out[i] = table[rows[inverse[i]]], zeros for a
    negative row.

    Args:
        table: pointer to float32 [*, dim].
        dim: floats a row (D).
        rows: pointer to int32 [U], the row of each distinct key.
        inverse: pointer to int32 [n], each in [0, U).
        n: number of rows to copy.
        out: pointer to float32 or float16 [n, dim].
        dtype: that of `out`.
    """
    getattr(kernels, _THROUGH[dtype])(table, dim, rows, inverse, n, out)

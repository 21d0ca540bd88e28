"""Small steps between keys and rows (row_numbers.cu)."""
from typing import Optional

from . import scan
from .arrays import Array, need, need_room, pointer
from .backend import INT64, POINTER, counts, family, kernels

declare = family(__name__)
declare("direct_rows", None, POINTER, INT64, INT64, POINTER, threads=lambda a: a[1])
declare("look_up_int32", None, POINTER, POINTER, INT64, POINTER, threads=lambda a: a[2])
declare("look_up_int64", None, POINTER, POINTER, INT64, POINTER, threads=lambda a: a[2])
declare("narrow_rows", None, POINTER, INT64, POINTER, threads=lambda a: a[1])
declare("collect_new", None, POINTER, POINTER, INT64, INT64, POINTER, threads=lambda a: a[2])
declare("lowest_out_of_range", None, POINTER, INT64, INT64, INT64, POINTER, threads=lambda a: a[1])
declare("number_missing", None, POINTER, INT64, INT64, INT64, POINTER, POINTER,
        threads=lambda a: scan.threads(a[1]), block=scan.BLOCK, exact=True)
declare("compact", None, POINTER, INT64, POINTER, POINTER, POINTER, POINTER,
        threads=lambda a: scan.threads(a[1]), block=scan.BLOCK, exact=True)


def direct(keys: Array, ranks: int, rows: Array) -> None:
    """Rows of keys in a table without index: rows[i] = keys[i] // ranks.

    Args:
        keys: int64 [n], not negative.
        ranks: number of ranks over which the table is spread.
        rows: int32 [n], out.
    """
    n = keys.size
    need("keys", keys, "int64", n)
    need("rows", rows, "int32", n)
    kernels.direct_rows(keys.pointer, n, ranks, rows.pointer)


def look_up(values: Array, index: Optional[Array], out: Array) -> None:
    """out[i] = values[index[i]]; without an index a copy.

    Args:
        values: int32 [*].
        index: int32 [n], each a valid place of values; or None: the first n of them.
        out: int32 [n].
    """
    n = _check(values, index, out, "int32")
    kernels.look_up_int32(values.pointer, pointer(index), n, out.pointer)


def look_up_int64(values: Array, index: Optional[Array], out: Array) -> None:
    """As `look_up`, for int64 values."""
    n = _check(values, index, out, "int64")
    kernels.look_up_int64(values.pointer, pointer(index), n, out.pointer)


def _check(values: Array, index: Optional[Array], out: Array, dtype: str) -> int:
    n = out.size
    need_room("values", values, dtype, n if index is None else 0)
    if index is not None:
        need("index", index, "int32", n)
    need("out", out, dtype, n)
    return n


def narrow(rows: Array, out: Array) -> None:
    """Row numbers, int64 [n], as int32 [n]; or other numbers as uint32, whose higher halves are left out."""
    n = rows.size
    need("rows", rows, "int64", n)
    need("out", out, "uint32" if out.dtype == "uint32" else "int32", n)
    kernels.narrow_rows(rows.pointer, n, out.pointer)


def collect_new(keys: Array, rows: Array, first: int, out: Array) -> None:
    """The keys of the rows from `first` on, in the order of these rows.

    Args:
        keys: int64 [n].
        rows: int32 [n], the keys' rows.
        first: the lowest row that is wanted.
        out: int64 [*], out[rows[i] - first] = keys[i]; room for all rows from `first` on.
    """
    n = keys.size
    need("keys", keys, "int64", n)
    need("rows", rows, "int32", n)
    need("out", out, "int64", out.size)
    kernels.collect_new(keys.pointer, rows.pointer, n, first, out.pointer)


def first_out_of_range(keys: Array, limit: int, least: int = 0) -> int:
    """The lowest position of a key outside [least, limit), or -1.

    Args:
        keys: int64 [n].
        limit: the lowest key that is too large.
        least: the lowest that is not too small.
    """
    n, found = keys.size, counts()
    need("keys", keys, "int64", n)
    kernels.lowest_out_of_range(keys.pointer, n, least, limit, found.take().pointer)
    from_end = found.read()[0]
    return n - from_end if from_end else -1


def number_missing(rows: Array, next_row: int, limit: int, out: Array) -> None:
    """Copies rows, with next_row, next_row + 1, ... for the missing ones, in order, as long as they are below limit.

    Args:
        rows: int32 [n], -1 where missing.
        next_row: the first number to give.
        limit: numbers from here on are not given: -1 stays.
        out: int32 [n].
    """
    n = rows.size
    need("rows", rows, "int32", n)
    need("out", out, "int32", n)
    kernels.number_missing(rows.pointer, n, next_row, limit, out.pointer, scan.state(n))


def compact(rows: Array, kept: Array, number: Array) -> int:
    """Leaves out missing rows.

    Args:
        rows: int32 [n], -1 where missing.
        kept: int32 [n], out: the rows that are not missing, in order, at its front.
        number: int32 [n], out: the place of each row in `kept`, -1 where missing.

    Returns:
        How many rows are kept.
    """
    n, found = rows.size, counts()
    need("rows", rows, "int32", n)
    need("kept", kept, "int32", n)
    need("number", number, "int32", n)
    kernels.compact(rows.pointer, n, kept.pointer, number.pointer, found.take().pointer, scan.state(n))
    return found.read()[0]

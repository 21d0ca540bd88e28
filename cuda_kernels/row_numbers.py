"""Small steps between keys and rows (row_numbers.cu)."""
from . import scan
from .backend import INT64, POINTER, counts, family, kernels

declare = family(__name__)
declare("direct_rows", None, POINTER, INT64, INT64, POINTER, threads=lambda a: a[1])
declare("look_up_int32", None, POINTER, POINTER, INT64, POINTER, threads=lambda a: a[2])
declare("look_up_int64", None, POINTER, POINTER, INT64, POINTER, threads=lambda a: a[2])
declare("narrow_rows", None, POINTER, INT64, POINTER, threads=lambda a: a[1])
declare("collect_new", None, POINTER, POINTER, INT64, INT64, POINTER, threads=lambda a: a[2])
declare("lowest_out_of_range", None, POINTER, INT64, INT64, POINTER, threads=lambda a: a[1])
declare("number_missing", None, POINTER, INT64, INT64, INT64, POINTER, POINTER,
        threads=lambda a: scan.threads(a[1]), block=scan.BLOCK, exact=True)
declare("compact", None, POINTER, INT64, POINTER, POINTER, POINTER, POINTER,
        threads=lambda a: scan.threads(a[1]), block=scan.BLOCK, exact=True)


def direct(keys: int, n: int, ranks: int, rows: int) -> None:
    """Rows of keys in a table without index: rows[i] = keys[i] // ranks.

    Args:
        keys: pointer to int64 [n], not negative.
        n: number of keys.
        ranks: number of ranks over which the table is spread.
        rows: pointer to int32 [n], out.
    """
    kernels.direct_rows(keys, n, ranks, rows)


def look_up(values: int, index: int, n: int, out: int) -> None:
    """out[i] = values[index[i]]; with index 0 (null) a copy.

    Args:
        values: pointer to int32.
        index: pointer to int32 [n], each a valid place of values; or 0.
        n: number of items of out.
        out: pointer to int32 [n].
    """
    kernels.look_up_int32(values, index, n, out)


def look_up_int64(values: int, index: int, n: int, out: int) -> None:
    """As `look_up`, for int64 values."""
    kernels.look_up_int64(values, index, n, out)


def narrow(rows: int, n: int, out: int) -> None:
    """Row numbers, int64 [n] at `rows`, as int32 [n] at `out`."""
    kernels.narrow_rows(rows, n, out)


def collect_new(keys: int, rows: int, n: int, first: int, out: int) -> None:
    """The keys of the rows from `first` on, in the order of these rows.

    Args:
        keys: pointer to int64 [n].
        rows: pointer to int32 [n], the keys' rows.
        n: number of keys.
        first: the lowest row that is wanted.
        out: pointer to int64, out[rows[i] - first] = keys[i]; room for all rows from `first` on.
    """
    kernels.collect_new(keys, rows, n, first, out)


def first_out_of_range(keys: int, n: int, limit: int) -> int:
    """The lowest position of a key outside [0, limit), or -1.

    Args:
        keys: pointer to int64 [n].
        n: number of keys.
        limit: the lowest key that is too large.
    """
    found = counts()
    kernels.lowest_out_of_range(keys, n, limit, found.take())
    from_end = found.read()[0]
    return n - from_end if from_end else -1


def number_missing(rows: int, n: int, next_row: int, limit: int, out: int) -> None:
    """Copies rows, with next_row, next_row + 1, ... for the missing ones, in order, as long as they are below limit.

    Args:
        rows: pointer to int32 [n], -1 where missing.
        n: number of rows.
        next_row: the first number to give.
        limit: numbers from here on are not given: -1 stays.
        out: pointer to int32 [n].
    """
    kernels.number_missing(rows, n, next_row, limit, out, scan.state(n))


def compact(rows: int, n: int, kept: int, number: int) -> int:
    """Leaves out missing rows.

    Args:
        rows: pointer to int32 [n], -1 where missing.
        n: number of rows.
        kept: pointer to int32 [n], out: the rows that are not missing, in order, at its front.
        number: pointer to int32 [n], out: the place of each row in `kept`, -1 where missing.

    Returns:
        How many rows are kept.
    """
    found = counts()
    kernels.compact(rows, n, kept, number, found.take(), scan.state(n))
    return found.read()[0]

"""When rows were last asked for, and rows that are free and given out again (row_use.cu)."""
from . import scan
from .backend import INT32, INT64, POINTER, counts, family, kernels

declare = family(__name__)
declare("begin_lookup", None, POINTER, POINTER, INT64, POINTER, threads=lambda a: 1)
declare("touch_rows", None, POINTER, INT64, POINTER, POINTER, POINTER, threads=lambda a: a[1])
declare("begin_rows", None, POINTER, INT64, POINTER, POINTER, POINTER, threads=lambda a: a[1])
declare("free_rows", None, POINTER, INT64, POINTER, threads=lambda a: a[1])
declare("leave_free_out", None, POINTER, INT64, POINTER, threads=lambda a: a[1])
declare("stamp_given", None, POINTER, INT64, INT64, INT64, POINTER, POINTER, threads=lambda a: a[1])
declare("reset_rows", None, POINTER, INT64, INT64, INT32, INT32, POINTER, threads=lambda a: a[1] * a[2])
declare("remember_keys", None, POINTER, INT64, INT64, INT64, INT64, POINTER, POINTER, INT64, threads=lambda a: a[1])
declare("list_free", None, POINTER, INT64, INT64, POINTER, POINTER, POINTER,
        threads=lambda a: scan.threads(a[1]), block=scan.BLOCK, exact=True)
declare("give_rows", None, POINTER, INT64, POINTER, POINTER, INT64, INT64, POINTER, POINTER, POINTER, POINTER,
        threads=lambda a: scan.threads(a[1]), block=scan.BLOCK, exact=True)


def begin_lookup(tick: int, known: int, unknown: int, clock: int) -> None:
    """Counts a lookup: all are pointers to an int64 but `unknown`.

    Args:
        tick: grows by one.
        known: becomes what `clock` points to where it is `unknown`.
        unknown: a number.
        clock: the step of a table.
    """
    kernels.begin_lookup(tick, known, unknown, clock)


def touch(rows: int, n: int, tick: int, used: int, frequency: int) -> None:
    """Notes that a lookup has asked for rows: used[row] = *tick, and frequency[row] grows by one if that is new.

    Args:
        rows: pointer to int32 [n], repeated ones too; negative ones are left out.
        n: number of rows.
        tick: pointer to an int64, the lookup's.
        used: pointer to int64 [*], changed.
        frequency: pointer to int64 [*], changed, or 0: nobody counts.
    """
    kernels.touch_rows(rows, n, tick, used, frequency)


def begin(rows: int, n: int, tick: int, used: int, frequency: int) -> None:
    """As `touch` for rows that a lookup gives out: they start with a frequency of 1. rows: distinct."""
    kernels.begin_rows(rows, n, tick, used, frequency)


def free(rows: int, n: int, used: int) -> None:
    """Notes that rows are free: used[row] = -1.

    Args:
        rows: pointer to int32 [n], distinct.
        n: number of rows.
        used: pointer to int64 [*], changed.
    """
    kernels.free_rows(rows, n, used)


def leave_free_out(used: int, n: int, rows: int) -> None:
    """rows[row] = -1 where a row is free; used: pointer to int64 [n], rows: pointer to int32 [n], changed."""
    kernels.leave_free_out(used, n, rows)


def stamp(rows: int, n: int, ahead: int, at_least: int, clock: int, stamps: int) -> None:
    """As `stamps.stamp_range`, for distinct rows int32 [n] in any order."""
    kernels.stamp_given(rows, n, ahead, at_least, clock, stamps)


def reset(rows: int, n: int, words: int, low: int, high: int, out: int) -> None:
    """Fills rows with one number, of four bytes or eight.

    Args:
        rows: pointer to int32 [n], distinct.
        n: number of rows.
        words: 32-bit words of a row.
        low: the number's lower word, as an int32. high: its higher word; `low` again for a number of four bytes.
        out: pointer to the first row.
    """
    kernels.reset_rows(rows, n, words, low, high, out)


def remember(keys: int, n: int, before: int, ahead: int, at_least: int, clock: int, ring: int, places: int) -> None:
    """Notes keys that have left, with the step: in a ring, so that those noted longest ago are overwritten.

    Args:
        keys: pointer to int64 [n].
        n: number of keys.
        before: how many have been noted before, in all.
        ahead: as for `stamp`. at_least: likewise. clock: likewise.
        ring: pointer to int64 [places, 2], changed: note e is at e % places.
        places: above 0.
    """
    kernels.remember_keys(keys, n, before, ahead, at_least, clock, ring, places)


def list_free(used: int, n: int, there: int, free: int) -> int:
    """Lists the free rows, the lowest last.

    Args:
        used: pointer to int64 [n], negative where a row is free.
        n: number of rows to look at.
        there: how many of them are free.
        free: pointer to int64 [there], out.

    Returns:
        How many are free: if it is not `there`, the list is of no use.
    """
    if not n:
        return 0
    found = counts()
    kernels.list_free(used, n, there, free, found.take(), scan.state(n))
    return found.read()[0]


def give(keys: int, n: int, rows: int, free: int, there: int, next_row: int, new_keys: int, new_rows: int) -> int:
    """Gives rows to the keys that have none, in order: first free ones, from the end of their list, then those unused.

    Args:
        keys: pointer to int64 [n], distinct.
        n: number of keys.
        rows: pointer to int32 [n], changed where it is -1.
        free: pointer to int64 [there], rows that are free.
        there: how many.
        next_row: the lowest row that has never been given out.
        new_keys: pointer to int64, out: the keys that got rows. new_rows: pointer to int32, out: their rows.

    Returns:
        How many rows were given.
    """
    if not n:
        return 0
    given = counts()
    kernels.give_rows(keys, n, rows, free, there, next_row, new_keys, new_rows, given.take(), scan.state(n))
    return given.read()[0]

"""When rows were last asked for, and rows that are free and given out again (row_use.cu)."""
from typing import Optional

from . import scan
from .arrays import Array, need, need_room, pointer
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


def begin_lookup(tick: Array, known: Array, unknown: int, clock: Array) -> None:
    """Counts a lookup: all are int64 [] but `unknown`.

    Args:
        tick: grows by one.
        known: where it is `unknown` + n, becomes one more than n, or than what `clock` is if that is more.
        unknown: a number.
        clock: the step of a table.
    """
    need("tick", tick, "int64", 1)
    need("known", known, "int64", 1)
    need("clock", clock, "int64", 1)
    kernels.begin_lookup(tick.pointer, known.pointer, unknown, clock.pointer)


def touch(rows: Array, tick: Array, used: Array, frequency: Optional[Array]) -> None:
    """Notes that a lookup has asked for rows: used[row] = tick, and frequency[row] grows by one if that is new.

    Args:
        rows: int32 [n], repeated ones too; negative ones are left out.
        tick: int64 [], the lookup's.
        used: int64 [V], changed.
        frequency: int64 [V], changed, or None: nobody counts.
    """
    _check(rows, tick, used, frequency)
    kernels.touch_rows(rows.pointer, rows.size, tick.pointer, used.pointer, pointer(frequency))


def begin(rows: Array, tick: Array, used: Array, frequency: Optional[Array]) -> None:
    """As `touch` for rows that a lookup gives out: they start with a frequency of 1. rows: distinct."""
    _check(rows, tick, used, frequency)
    kernels.begin_rows(rows.pointer, rows.size, tick.pointer, used.pointer, pointer(frequency))


def _check(rows: Array, tick: Array, used: Array, frequency: Optional[Array]) -> None:
    need("rows", rows, "int32", rows.size)
    need("tick", tick, "int64", 1)
    need("used", used, "int64", used.size)
    if frequency is not None:
        need("frequency", frequency, "int64", used.size)


def free(rows: Array, used: Array) -> None:
    """Notes that rows are free: used[row] = -1.

    Args:
        rows: int32 [n], distinct.
        used: int64 [V], changed.
    """
    need("rows", rows, "int32", rows.size)
    need("used", used, "int64", used.size)
    kernels.free_rows(rows.pointer, rows.size, used.pointer)


def leave_free_out(used: Array, rows: Array) -> None:
    """rows[row] = -1 where a row is free; used: int64 [V]; rows: int32 [n], n up to V, changed."""
    n = rows.size
    need_room("used", used, "int64", n)
    need("rows", rows, "int32", n)
    kernels.leave_free_out(used.pointer, n, rows.pointer)


def stamp(rows: Array, ahead: int, at_least: int, clock: Array, stamps: Array) -> None:
    """As `stamps.stamp_range`, for distinct rows int32 [n] in any order; stamps: int64 [V]."""
    need("rows", rows, "int32", rows.size)
    need("clock", clock, "int64", 1)
    need("stamps", stamps, "int64", stamps.size)
    kernels.stamp_given(rows.pointer, rows.size, ahead, at_least, clock.pointer, stamps.pointer)


def reset(rows: Array, low: int, high: int, out: Array) -> None:
    """Fills rows with one number, of four bytes or eight.

    Args:
        rows: int32 [n], distinct.
        low: the number's lower word, as an int32. high: its higher word; `low` again for a number of four bytes.
        out: [V, ...] of numbers of as many bytes, changed.
    """
    need("rows", rows, "int32", rows.size)
    need("out", out, out.dtype, out.size)
    kernels.reset_rows(rows.pointer, rows.size, out.row_bytes // 4, low, high, out.pointer)


def remember(keys: Array, before: int, ahead: int, at_least: int, clock: Array, ring: Array) -> None:
    """Notes keys that have left, with the step: in a ring, so that those noted longest ago are overwritten.

    Args:
        keys: int64 [n].
        before: how many have been noted before, in all.
        ahead: as for `stamp`. at_least: likewise. clock: likewise.
        ring: int64 [places, 2], changed: note e is at e % places; at least one place.
    """
    places = ring.shape[0]
    need("keys", keys, "int64", keys.size)
    need("clock", clock, "int64", 1)
    need("ring", ring, "int64", 2 * places)
    kernels.remember_keys(keys.pointer, keys.size, before, ahead, at_least, clock.pointer, ring.pointer, places)


def list_free(used: Array, free: Array) -> int:
    """Lists the free rows, the lowest last.

    Args:
        used: int64 [n], negative where a row is free.
        free: int64 [there], out: room for as many as are free.

    Returns:
        How many are free: if it is not `there`, the list is of no use.
    """
    n = used.size
    need("used", used, "int64", n)
    need("free", free, "int64", free.size)
    if not n:
        return 0
    found = counts()
    kernels.list_free(used.pointer, n, free.size, free.pointer, found.take().pointer, scan.state(n))
    return found.read()[0]


def give(keys: Array, rows: Array, free: Array, next_row: int, new_keys: Array, new_rows: Array) -> int:
    """Gives rows to the keys that have none, in order: first free ones, from the end of their list, then those unused.

    Args:
        keys: int64 [n], distinct.
        rows: int32 [n], changed where it is -1.
        free: int64 [there], rows that are free.
        next_row: the lowest row that has never been given out.
        new_keys: int64 [*], out: the keys that got rows. new_rows: int32 [*], out: their rows. Both have room for them.

    Returns:
        How many rows were given.
    """
    n = keys.size
    need("keys", keys, "int64", n)
    need("rows", rows, "int32", n)
    need("free", free, "int64", free.size)
    need("new_keys", new_keys, "int64", new_keys.size)
    need("new_rows", new_rows, "int32", new_keys.size)
    if not n:
        return 0
    given = counts()
    kernels.give_rows(keys.pointer, n, rows.pointer, free.pointer, free.size, next_row, new_keys.pointer,
                      new_rows.pointer, given.take().pointer, scan.state(n))
    return given.read()[0]

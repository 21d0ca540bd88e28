"""When rows last changed, and the keys of those that have (stamps.cu)."""
from . import hash_index
from .arrays import Array, need, need_room
from .backend import INT32, INT64, POINTER, family, kernels, key_type

declare = family(__name__)
declare("advance_clock", None, POINTER, INT64, INT64, threads=lambda a: 1, block=32)
# Without rows too a GPU has to move the clock.
declare("stamp_rows", None, POINTER, INT64, INT64, INT64, POINTER, POINTER, threads=lambda a: max(1, a[1]))
declare("stamp_range", None, INT64, INT64, INT64, INT64, POINTER, POINTER, threads=lambda a: a[1])
declare("changed_rows", None, POINTER, INT64, INT64, POINTER, threads=lambda a: a[1])
declare("numbered_keys", None, POINTER, INT64, POINTER, INT64, INT32, POINTER, threads=lambda a: a[1])
declare("direct_keys_of_rows", None, POINTER, INT64, INT64, INT64, INT32, POINTER, threads=lambda a: a[1])


def advance(clock: Array, ahead: int, at_least: int) -> None:
    """Moves a table's clock: max(clock + ahead, at_least).

    Args:
        clock: int64 [], the last step at which the table changed.
        ahead: steps to move on.
        at_least: the least step that it shows afterwards.
    """
    need("clock", clock, "int64", 1)
    kernels.advance_clock(clock.pointer, ahead, at_least)


def stamp_rows(rows: Array, at_least: int, clock: Array, stamps: Array) -> None:
    """Moves the clock on to `at_least`, if it is behind, and stamps rows with its step.

    Args:
        rows: int32 [n], in any order; those outside the table are left out.
        at_least: the least step.
        clock: int64 [], changed.
        stamps: int64 [V], changed.
    """
    need("rows", rows, "int32", rows.size)
    need("clock", clock, "int64", 1)
    need("stamps", stamps, "int64", stamps.size)
    kernels.stamp_rows(rows.pointer, rows.size, stamps.size, at_least, clock.pointer, stamps.pointer)


def stamp_range(ahead: int, at_least: int, clock: Array, stamps: Array) -> None:
    """Stamps rows that follow one another with max(clock + ahead, at_least); the clock stays as it is.

    Args:
        ahead: steps after the clock's.
        at_least: the least step.
        clock: int64 [].
        stamps: int64 [n], those of these rows, changed.
    """
    need("clock", clock, "int64", 1)
    need("stamps", stamps, "int64", stamps.size)
    kernels.stamp_range(0, stamps.size, ahead, at_least, clock.pointer, stamps.pointer)


def changed_rows(stamps: Array, since: int, rows: Array) -> None:
    """rows[i] = i where stamps[i] > since, else -1.

    Args:
        stamps: int64 [V].
        since: the last step that does not count.
        rows: int32 [n], out: of the first n rows.
    """
    n = rows.size
    need_room("stamps", stamps, "int64", n)
    need("rows", rows, "int32", n)
    kernels.changed_rows(stamps.pointer, n, since, rows.pointer)


def numbered_keys(index: Array, number: Array, keys: Array) -> None:
    """keys[number[row]] = the row's key, for every row that has a number.

    Args:
        index: int64 [capacity, 2], see hash_index.py.
        number: int32 [n], of the rows that may have a number distinct ones, or -1.
        keys: int64, int32 or uint32, as many as there are numbers, out.
    """
    need("number", number, "int32", number.size)
    need("keys", keys, keys.dtype, keys.size)
    kernels.numbered_keys(index.pointer, hash_index.slots(index), number.pointer, number.size, key_type(keys),
                          keys.pointer)


def direct_keys(rows: Array, ranks: int, rank: int, keys: Array) -> None:
    """Keys of rows of a table without index: keys[i] = rows[i] * ranks + rank.

    Args:
        rows: int32 [n].
        ranks: number of ranks over which the table is spread. rank: this one.
        keys: int64, int32 or uint32 [n], out.
    """
    n = rows.size
    need("rows", rows, "int32", n)
    need("keys", keys, keys.dtype, n)
    kernels.direct_keys_of_rows(rows.pointer, n, ranks, rank, key_type(keys), keys.pointer)

"""When rows last changed, and the keys of those that have (stamps.cu)."""
from .backend import INT32, INT64, KEY_TYPES, POINTER, family, kernels

declare = family(__name__)
declare("advance_clock", None, POINTER, INT64, INT64, threads=lambda a: 1, block=32)
# Without rows too a GPU has to move the clock.
declare("stamp_rows", None, POINTER, INT64, INT64, INT64, POINTER, POINTER, threads=lambda a: max(1, a[1]))
declare("stamp_range", None, INT64, INT64, INT64, INT64, POINTER, POINTER, threads=lambda a: a[1])
declare("changed_rows", None, POINTER, INT64, INT64, POINTER, threads=lambda a: a[1])
declare("numbered_keys", None, POINTER, INT64, POINTER, INT64, INT32, POINTER, threads=lambda a: a[1])
declare("direct_keys_of_rows", None, POINTER, INT64, INT64, INT64, INT32, POINTER, threads=lambda a: a[1])


def advance(clock: int, ahead: int, at_least: int) -> None:
    """Moves a table's clock: max(*clock + ahead, at_least).

    Args:
        clock: pointer to an int64, the last step at which the table changed.
        ahead: steps to move on.
        at_least: the least step that it shows afterwards.
    """
    kernels.advance_clock(clock, ahead, at_least)


def stamp_rows(rows: int, n: int, table_rows: int, at_least: int, clock: int, stamps: int) -> None:
    """Moves the clock on to `at_least`, if it is behind, and stamps rows with its step.

    Args:
        rows: pointer to int32 [n], in any order; those outside the table are left out.
        n: number of rows.
        table_rows: rows of the table.
        at_least: the least step.
        clock: pointer to an int64, changed.
        stamps: pointer to int64 [table_rows], changed.
    """
    kernels.stamp_rows(rows, n, table_rows, at_least, clock, stamps)


def stamp_range(first: int, n: int, ahead: int, at_least: int, clock: int, stamps: int) -> None:
    """Stamps rows first to first + n - 1 with max(*clock + ahead, at_least); the clock stays as it is.

    Args:
        first: the first row. n: number of rows.
        ahead: steps after the clock's.
        at_least: the least step.
        clock: pointer to an int64.
        stamps: pointer to int64 [*], changed.
    """
    kernels.stamp_range(first, n, ahead, at_least, clock, stamps)


def changed_rows(stamps: int, n: int, since: int, rows: int) -> None:
    """rows[i] = i where stamps[i] > since, else -1.

    Args:
        stamps: pointer to int64 [n].
        n: number of rows to look at.
        since: the last step that does not count.
        rows: pointer to int32 [n], out.
    """
    kernels.changed_rows(stamps, n, since, rows)


def numbered_keys(index: int, capacity: int, number: int, n: int, key_type: str, keys: int) -> None:
    """keys[number[row]] = the row's key, for every row that has a number.

    Args:
        index: pointer to int64 [capacity, 2], see hash_index.py.
        capacity: slots of the index.
        number: pointer to int32 [n], distinct numbers, or -1.
        n: rows that may have a number.
        key_type: of `keys`: 'int64', 'int32' or 'uint32'.
        keys: pointer to as many keys as there are numbers, out.
    """
    kernels.numbered_keys(index, capacity, number, n, KEY_TYPES[key_type], keys)


def direct_keys(rows: int, n: int, ranks: int, rank: int, key_type: str, keys: int) -> None:
    """Keys of rows of a table without index: keys[i] = rows[i] * ranks + rank.

    Args:
        rows: pointer to int32 [n].
        n: number of rows.
        ranks: number of ranks over which the table is spread. rank: this one.
        key_type: of `keys`: 'int64', 'int32' or 'uint32'.
        keys: pointer to n keys, out.
    """
    kernels.direct_keys_of_rows(rows, n, ranks, rank, KEY_TYPES[key_type], keys)

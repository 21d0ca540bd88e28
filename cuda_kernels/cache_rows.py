"""A table's rows in a cache, and on their way between it and the host's memory (cache_rows.cu)."""
from typing import NamedTuple, Tuple

from . import scan
from .backend import INT32, INT64, POINTER, counts, family, kernels, row_lanes

# In place of a row in the host's memory, as in cache_rows.cu: there is none, none is given, nobody has looked.
HOMES = {"new": -1, "refused": -2, "unknown": -3}
NEW = HOMES["new"]

_TEAM_ROWS = 4  # that a team of threads has in flight, as in cache_rows.cu, and as in host_group_inserts.cu
# Of a launch that moves rows over the bus: more threads make it no faster, and what they have on its way at a time lies
# so far apart in the host's memory that every row costs a translation of its address. On an H200 142,000 records of
# 1536 bytes each way take 5.2 ms with so many threads, 5.4 with four times, 5.6 to 5.9 with more.
_BUS_THREADS = 33 * 256
_ALL_THREADS = 1 << 40  # as many as there are rows for
_MOVES = (POINTER, POINTER, POINTER, POINTER, INT64)


def _threads(rows: int, words: int) -> int:
    return -(-rows // _TEAM_ROWS) * row_lanes(words)


declare = family(__name__)
declare("touch_cached", None, POINTER, INT64, POINTER, POINTER, POINTER, POINTER, threads=lambda a: a[1])
declare("find_homes", None, POINTER, INT64, POINTER, POINTER, INT64, POINTER, POINTER, POINTER, threads=lambda a: a[1])
declare("give_cached", None, POINTER, INT64, POINTER, POINTER, POINTER, INT64, INT64, POINTER, POINTER, POINTER,
        POINTER, POINTER, threads=lambda a: scan.threads(a[1]), block=scan.BLOCK, exact=True)
declare("pick_new", None, POINTER, INT64, POINTER, INT32, POINTER, threads=lambda a: a[1])
declare("set_homes", None, POINTER, POINTER, INT64, POINTER, threads=lambda a: a[2])
declare("homes_in_use", None, POINTER, POINTER, INT64, POINTER, threads=lambda a: a[2])
declare("homes_of", None, POINTER, INT64, POINTER, POINTER, threads=lambda a: a[1])
declare("mark_homes", None, POINTER, INT64, INT64, POINTER, threads=lambda a: a[1])
declare("move_rows", None, *_MOVES, *_MOVES, INT64, threads=lambda a: _threads(a[4] + a[9], a[10]))
declare("move_records", None, *_MOVES, INT64, INT64, *_MOVES, INT64, INT64, INT64, INT64,
        threads=lambda a: min(a[15], _threads(a[4] + a[11], a[14])))


class Moves(NamedTuple):
    """Rows to copy: to[to_rows[i]] = source[from_rows[i]]; nothing where a row number is negative.

    Attributes:
        source: pointer to the first of the rows that are read.
        from_rows: pointer to int32 [n], or 0: rows 0 to n - 1.
        to: pointer to the first of those that are written.
        to_rows: pointer to int32 [n], distinct, or 0: rows 0 to n - 1.
        n: number of rows.
        from_stride: 32-bit words from a row that is read to the next; 0: they follow one another.
        to_stride: likewise of those that are written.
    """

    source: int
    from_rows: int
    to: int
    to_rows: int
    n: int
    from_stride: int = 0
    to_stride: int = 0


NOTHING = Moves(0, 0, 0, 0, 0)


def touch(rows: int, n: int, tick: int, used: int, frequency: int, hits: int) -> None:
    """As `row_use.touch`, and *hits (pointer to an int64) grows by the rows that are asked for, each counted once."""
    kernels.touch_cached(rows, n, tick, used, frequency, hits)


def find_homes(keys: int, n: int, rows: int, every: int, capacity: int, homes: int) -> Tuple[int, int]:
    """Looks up keys that are not in the cache among all keys.

    Args:
        keys: pointer to int64 [n], distinct.
        n: number of keys.
        rows: pointer to int32 [n], each key's row of the cache, -1 where it has none.
        every: pointer to int64 [capacity, 2], the index of all keys, see hash_index.py.
        capacity: its slots.
        homes: pointer to int32 [n], out: the row in the host's memory, or NEW; -3 for keys that are in the cache.

    Returns:
        (keys that are not in the cache, those of them that are new).
    """
    found = counts()
    kernels.find_homes(keys, n, rows, every, capacity, homes, found.take(), found.take())
    absent, fresh = found.read()
    return absent, fresh


def give(keys: int, n: int, rows: int, homes: int, free: int, there: int, next_row: int, new_keys: int, new_rows: int,
         new_homes: int) -> int:
    """Gives rows of the cache to the keys that come into it, in order: first free ones, as `row_use.give`.

    Args:
        keys: pointer to int64 [n], distinct.
        n: number of keys.
        rows: pointer to int32 [n], changed for those keys.
        homes: pointer to int32 [n]: a row in the host's memory, or NEW, says that the key comes.
        free: pointer to int64 [there], rows that are free. there: how many.
        next_row: the lowest row that has never been given out.
        new_keys: pointer to int64, out: the keys that got rows. new_rows: pointer to int32, out: their rows.
        new_homes: pointer to int32, out: what homes has for them.

    Returns:
        How many rows were given.
    """
    if not n:
        return 0
    given = counts()
    kernels.give_cached(keys, n, rows, homes, free, there, next_row, new_keys, new_rows, new_homes, given.take(),
                        scan.state(n))
    return given.read()[0]


def pick(homes: int, n: int, rows: int, new: bool, out: int) -> None:
    """out[i] = rows[i] of keys that are new, or of those that are not; -1 for the others. All int32 [n]."""
    kernels.pick_new(homes, n, rows, int(not new), out)


def set_homes(rows: int, where: int, n: int, homes: int) -> None:
    """homes[rows[i]] = where[i]: pointers to int64 [*], int32 [n] and int32 [n]."""
    kernels.set_homes(rows, where, n, homes)


def homes_in_use(used: int, homes: int, n: int, where: int) -> None:
    """where int32 [n] = homes int64 [n] of the rows that belong to keys (used int64 [n] is not negative), else -1."""
    kernels.homes_in_use(used, homes, n, where)


def homes_of(rows: int, n: int, homes: int, where: int) -> None:
    """where int32 [n] = homes int64 [*] of rows int32 [n]."""
    kernels.homes_of(rows, n, homes, where)


def mark_homes(where: int, n: int, mark: int, marks: int) -> None:
    """marks int64 [*] becomes `mark` at where int32 [n], negative ones left out."""
    kernels.mark_homes(where, n, mark, marks)


def move(words: int, out: Moves = NOTHING, into: Moves = NOTHING, over_bus: bool = True) -> None:
    """Copies rows in both directions at once; neither reads what the other writes, but that on the host `out` is first.

    Args:
        words: 32-bit words of a row, of any type.
        out: rows that go. into: rows that come.
        over_bus: whether a GPU reads or writes the host's memory by it.
    """
    given = []
    for moves in (out, into):
        given += [*moves[:5], moves.from_stride or words, moves.to_stride or words]
    kernels.move_records(*given, words, _BUS_THREADS if over_bus else _ALL_THREADS)

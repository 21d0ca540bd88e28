"""A table's rows in a cache, and on their way between it and the host's memory (cache_rows.cu)."""
from typing import List, NamedTuple, Optional, Tuple

from . import scan
from .arrays import Array, described, need, need_room, pointer
from .backend import INT32, INT64, POINTER, counts, family, kernels, row_lanes

# In place of a row in the host's memory, as in cache_rows.cu: there is none, none is given, nobody has looked.
HOMES = {"new": -1, "refused": -2, "unknown": -3}
NEW = HOMES["new"]
LEAN = 1 << 32  # as in cache_rows.cu

_TEAM_ROWS = 4  # that a team of threads has in flight, as in cache_rows.cu, and as in host_group_inserts.cu
# Of a launch that moves rows over the bus: more threads make it no faster, and what they have on its way at a time lies
# so far apart in the host's memory that every row costs a translation of its address. On an H200 142,000 records of
# 1536 bytes each way take 5.2 ms with 33 blocks, 5.4 with four times as many, 5.6 to 5.9 with more. Lookups that move
# rows both ways take least with 16 (9.1 ms; 9.6 with 12, 9.9 with 20, 9.7 with 24 and 33, 11.9 with 8); evaluations,
# which fetch alone, 5.3 ms with these and 5.0 with 33; lookups that fetch rows without their slots 5.9 and 6.5 with 24,
# 6.6 and 6.7 with 16, 6.6 and 6.9 with 33, 8.0 and more with 66.
_BOTH_WAYS, _ONE_WAY = 16 * 256, 24 * 256
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
declare("set_homes", None, POINTER, POINTER, INT64, POINTER, POINTER, threads=lambda a: a[2])
declare("homes_in_use", None, POINTER, POINTER, INT64, INT32, POINTER, threads=lambda a: a[2])
declare("homes_of", None, POINTER, INT64, POINTER, POINTER, threads=lambda a: a[1])
declare("whole_homes_of", None, POINTER, INT64, POINTER, POINTER, POINTER, threads=lambda a: a[1])
declare("take_lean", None, POINTER, INT64, INT64, POINTER, POINTER, POINTER, POINTER, POINTER, threads=lambda a: a[1])
declare("mark_homes", None, POINTER, INT64, INT64, POINTER, threads=lambda a: a[1])
declare("move_rows", None, *_MOVES, *_MOVES, INT64, threads=lambda a: _threads(a[4] + a[9], a[10]))
declare("move_records", None, *_MOVES, INT64, INT64, *_MOVES, INT64, INT64, INT64, INT64,
        threads=lambda a: min(a[15], _threads(a[4] + a[11], a[14])))


class Moves(NamedTuple):
    """Rows to copy: to[to_rows[i]] = source[from_rows[i]]; nothing where a row number is negative.

    Attributes:
        source: what is read: rows of a multiple of four bytes, of any dtype, adjacent or with a stride.
        to: what is written: rows of as many bytes.
        from_rows: int32 [n], or None: rows 0 to n - 1.
        to_rows: int32 [n], distinct, or None: rows 0 to n - 1.
    """

    source: Array
    to: Array
    from_rows: Optional[Array] = None
    to_rows: Optional[Array] = None


def touch(rows: Array, tick: Array, used: Array, frequency: Optional[Array], hits: Array) -> None:
    """As `row_use.touch`, and hits, int64 [], grows by the rows that are asked for, each counted once."""
    need("rows", rows, "int32", rows.size)
    need("tick", tick, "int64", 1)
    need("used", used, "int64", used.size)
    need("hits", hits, "int64", 1)
    if frequency is not None:
        need("frequency", frequency, "int64", used.size)
    kernels.touch_cached(rows.pointer, rows.size, tick.pointer, used.pointer, pointer(frequency), hits.pointer)


def find_homes(keys: Array, rows: Array, every: Array, homes: Array) -> Tuple[int, int]:
    """Looks up keys that are not in the cache among all keys.

    Args:
        keys: int64 [n], distinct.
        rows: int32 [n], each key's row of the cache, -1 where it has none.
        every: int64 [capacity, 2], the index of all keys, see hash_index.py.
        homes: int32 [n], out: the row in the host's memory, or NEW; -3 for keys that are in the cache.

    Returns:
        (keys that are not in the cache, those of them that are new).
    """
    n, capacity = keys.size, every.shape[0]
    need("keys", keys, "int64", n)
    need("rows", rows, "int32", n)
    need("every", every, "int64", 2 * capacity)
    need("homes", homes, "int32", n)
    found = counts()
    kernels.find_homes(keys.pointer, n, rows.pointer, every.pointer, capacity, homes.pointer, found.take().pointer,
                       found.take().pointer)
    absent, fresh = found.read()
    return absent, fresh


def give(keys: Array, rows: Array, homes: Array, free: Array, next_row: int, new_keys: Array, new_rows: Array,
         new_homes: Array) -> int:
    """Gives rows of the cache to the keys that come into it, in order: first free ones, as `row_use.give`.

    Args:
        keys: int64 [n], distinct.
        rows: int32 [n], changed for those keys.
        homes: int32 [n]: a row in the host's memory, or NEW, says that the key comes.
        free: int64 [there], rows that are free.
        next_row: the lowest row that has never been given out.
        new_keys: int64 [*], out: the keys that got rows. new_rows: int32 [*], out: their rows.
        new_homes: int32 [*], out: what homes has for them. All have room for as many as come.

    Returns:
        How many rows were given.
    """
    n = keys.size
    need("keys", keys, "int64", n)
    need("rows", rows, "int32", n)
    need("homes", homes, "int32", n)
    need("free", free, "int64", free.size)
    need("new_keys", new_keys, "int64", new_keys.size)
    need("new_rows", new_rows, "int32", new_keys.size)
    need("new_homes", new_homes, "int32", new_keys.size)
    if not n:
        return 0
    given = counts()
    kernels.give_cached(keys.pointer, n, rows.pointer, homes.pointer, free.pointer, free.size, next_row,
                        new_keys.pointer, new_rows.pointer, new_homes.pointer, given.take().pointer, scan.state(n))
    return given.read()[0]


def pick(homes: Array, rows: Array, new: bool, out: Array) -> None:
    """out[i] = rows[i] of keys that are new, or of those that have a home; -1 for the others. All int32 [n]."""
    n = homes.size
    need("homes", homes, "int32", n)
    need("rows", rows, "int32", n)
    need("out", out, "int32", n)
    kernels.pick_new(homes.pointer, n, rows.pointer, int(not new), out.pointer)


def set_homes(rows: Array, where: Array, homes: Array, lean: Optional[Array] = None) -> None:
    """homes[rows[i]] = where[i]: int64 [*], int32 [n] and int32 [n].

    Args:
        lean: int32 [n]; where it is not negative the row has come without its optimizers' slots: LEAN is noted too.
    """
    n = rows.size
    need("rows", rows, "int32", n)
    need("where", where, "int32", n)
    need("homes", homes, "int64", homes.size)
    if lean is not None:
        need("lean", lean, "int32", n)
    kernels.set_homes(rows.pointer, where.pointer, n, pointer(lean), homes.pointer)


def homes_in_use(used: Array, homes: Array, where: Array, whole: bool = False) -> None:
    """where int32 [n] = homes int64 [*] of the first n rows, if they belong to keys (used int64 [*] is not negative),
    and, `whole`, are not lean; else -1."""
    n = where.size
    need_room("used", used, "int64", n)
    need_room("homes", homes, "int64", n)
    need("where", where, "int32", n)
    kernels.homes_in_use(used.pointer, homes.pointer, n, int(whole), where.pointer)


def homes_of(rows: Array, homes: Array, where: Array) -> None:
    """where int32 [n] = homes int64 [*] of rows int32 [n]."""
    n = rows.size
    need("rows", rows, "int32", n)
    need("homes", homes, "int64", homes.size)
    need("where", where, "int32", n)
    kernels.homes_of(rows.pointer, n, homes.pointer, where.pointer)


def whole_homes_of(rows: Array, homes: Array, where: Array) -> int:
    """As `homes_of`, but -1 of rows that are lean. Returns how many are not."""
    n = rows.size
    need("rows", rows, "int32", n)
    need("homes", homes, "int64", homes.size)
    need("where", where, "int32", n)
    found = counts()
    kernels.whole_homes_of(rows.pointer, n, homes.pointer, where.pointer, found.take().pointer)
    return found.read()[0]


def take_lean(rows: Optional[Array], used: Array, homes: Array, took: Array, where: Array) -> int:
    """Finds rows that are lean, and notes that they are so no longer.

    Args:
        rows: int32 [n] among which to look, also repeated ones, and some that are none; None: the first n rows.
        used: int64 [C], not negative where a row belongs to a key. homes: int64 [C], changed.
        took: int32 [n], out: the row, each one once; -1 of those that are not lean.
        where: int32 [n], out: its row in the host's memory, or -1.

    Returns:
        How many were found.
    """
    n = took.size
    if rows is not None:
        need("rows", rows, "int32", n)
    need("used", used, "int64", homes.size)
    need("homes", homes, "int64", homes.size)
    need("where", where, "int32", n)
    if rows is None:
        need_room("homes", homes, "int64", n)
    found = counts()
    kernels.take_lean(pointer(rows), n, homes.size, used.pointer, homes.pointer, took.pointer, where.pointer,
                      found.take().pointer)
    return found.read()[0]


def mark_homes(where: Array, mark: int, marks: Array) -> None:
    """marks int64 [*] becomes `mark` at where int32 [n], negative ones left out."""
    need("where", where, "int32", where.size)
    need("marks", marks, "int64", marks.size)
    kernels.mark_homes(where.pointer, where.size, mark, marks.pointer)


def move(out: Optional[Moves] = None, into: Optional[Moves] = None, over_bus: bool = True) -> None:
    """Copies rows in both directions at once; neither reads what the other writes, but that on the host `out` is first.

    Args:
        out: rows that go. into: rows that come, of as many bytes. None: nothing.
        over_bus: whether a GPU reads or writes the host's memory by it.

    Raises:
        ValueError: rows differ in bytes, or are no multiple of four; row numbers are not as many on both sides, or
            there are fewer rows.
    """
    there = [moves for moves in (out, into) if moves is not None]
    words = there[0].source.row_bytes // 4 if there else 1
    on_bus = _ONE_WAY if len(there) < 2 else _BOTH_WAYS
    kernels.move_records(*_given(out, words), *_given(into, words), words, on_bus if over_bus else _ALL_THREADS)


def _given(moves: Optional[Moves], words: int) -> List[int]:
    """A kernel's arguments."""
    if moves is None:
        return [0, 0, 0, 0, 0, words, words]
    source, to, from_rows, to_rows = moves
    if not source.row_bytes == to.row_bytes == 4 * words:
        raise ValueError("got rows {} to be copied to {}, expected both of {} bytes a row".format(
            described(source), described(to), 4 * words))
    numbers = [rows.size for rows in (from_rows, to_rows) if rows is not None]
    n = numbers[0] if numbers else source.shape[0]
    for what, array, rows in (("source", source, from_rows), ("to", to, to_rows)):
        if rows is not None:
            need(what + "'s rows", rows, "int32", n)
        elif array.shape[0] < n:
            raise ValueError("{}: got {}, expected at least {} rows".format(what, described(array), n))
    return [source.pointer, pointer(from_rows), to.pointer, pointer(to_rows), n, source.stride // 4 or words,
            to.stride // 4 or words]

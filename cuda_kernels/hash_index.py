"""The hash index from keys to rows (hash_index.cu)."""
from typing import Optional

from . import scan
from .arrays import Array, allocated, need
from .backend import INT32, INT64, POINTER, counts, current, family, kernels

declare = family(__name__)
declare("clear_index", None, POINTER, INT64, threads=lambda a: a[1])
declare("find_kernel", None, POINTER, INT64, POINTER, INT64, POINTER, POINTER, threads=lambda a: a[3])
declare("insert", INT64, POINTER, INT64, POINTER, INT64, POINTER, INT32)
declare("number_new", None, POINTER, INT64, POINTER, INT32, POINTER, POINTER, POINTER, POINTER,
        threads=lambda a: scan.threads(a[1]), block=scan.BLOCK, exact=True)
declare("claim_slots", None, POINTER, INT64, POINTER, POINTER, INT32, INT64, threads=lambda a: a[5])
declare("write_keys", None, POINTER, INT64, POINTER, POINTER, INT32, INT64, threads=lambda a: a[5])
declare("count_missing", None, POINTER, INT64, POINTER, threads=lambda a: a[1])


def capacity(rows: int) -> int:
    """Slots of an index for that many rows: a power of two, at most two thirds of it in use when all rows are."""
    return 1 << max(3, (rows + (rows + 1) // 2 - 1).bit_length())


def clear(index: Array) -> None:
    """Empties all slots of index, int64 [capacity, 2]."""
    kernels.clear_index(index.pointer, slots(index))


def slots(index: Array) -> int:
    """The capacity of an index, int64 [capacity, 2].

    Raises:
        TypeError, ValueError: it is something else.
    """
    capacity = index.shape[0]
    need("index", index, "int64", 2 * capacity)
    return capacity


def find(index: Array, keys: Array, rows: Array) -> int:
    """Looks keys up.

    Args:
        index: int64 [capacity, 2], a key and its row in each slot; row -1 marks an empty one, whatever its key. The
            capacity is a power of two.
        keys: int64 [n].
        rows: int32 [n], out: the row of each key, -1 for a missing one.

    Returns:
        How many of the n keys are missing.
    """
    _check(index, keys, rows)  # before a place is taken
    found = counts()
    _start_find(index, keys, rows, found.take())
    return found.read()[0]


def start_find(index: Array, keys: Array, rows: Array, missing: Array) -> None:
    """As `find`, without waiting; missing: an int64 that is 0, as `backend.counts().take()` gives it."""
    _check(index, keys, rows)
    _start_find(index, keys, rows, missing)


def _start_find(index: Array, keys: Array, rows: Array, missing: Array) -> None:
    kernels.find_kernel(index.pointer, index.shape[0], keys.pointer, keys.size, rows.pointer, missing.pointer)


def _check(index: Array, keys: Array, rows: Array) -> None:
    slots(index)
    need("keys", keys, "int64", keys.size)
    need("rows", rows, "int32", keys.size)


def insert(index: Array, keys: Array, rows: Array, next_row: int, new: Optional[int] = None) -> int:
    """Gives the keys that `find` missed the rows next_row, next_row + 1, ... in order of first appearance.

    Args:
        index: int64 [capacity, 2], changed.
        keys: int64 [n]; a repeated new key gets one row on the host. On a GPU new keys must be distinct.
        rows: int32 [n]: where it is -1 the key's row is written, elsewhere it is left.
        next_row: the lowest row not in use.
        new: how many of the keys have no row, if that is known: then a GPU is not waited for.

    Returns:
        The number of rows given out.

    Raises:
        OverflowError: the index has fewer empty slots than there are new keys. The index is as it was.
    """
    n, capacity = keys.size, index.shape[0]
    _check(index, keys, rows)
    if current() is None:
        inserted = kernels.insert(index.pointer, capacity, keys.pointer, n, rows.pointer, next_row)
    else:
        inserted = _insert_on_gpu(index, keys, rows, next_row, new)
    if inserted < 0:
        raise OverflowError("The hash index is full: {} slots, {} rows in use, and among the {} keys asked for "
                            "are more new ones than empty slots.".format(capacity, next_row, n))
    return inserted


def insert_bytes(n: int) -> int:
    """Bytes that `insert` of n keys allocates on a GPU, in a few pieces."""
    return 8 * n + scan.state_bytes(n) + (1 << 12)


def _insert_on_gpu(index: Array, keys: Array, rows: Array, next_row: int, new: Optional[int]) -> int:
    """As the host's function: the rows given out, or -1 where there is no room."""
    n, capacity = keys.size, index.shape[0]
    if not n:
        return 0
    found = counts()
    if new is None and n > capacity - next_row:  # may be too many: count before anything is written
        kernels.count_missing(rows.pointer, n, found.take().pointer)
        new = found.read()[0]
    if new is not None and new > capacity - next_row:
        return -1
    gpu = current()
    new_keys, how_many = allocated(gpu, "int64", n), allocated(gpu, "int64", 2)
    inserted = found.take() if new is None else how_many.at(1)
    kernels.number_new(keys.pointer, n, rows.pointer, next_row, new_keys.pointer, inserted.pointer, how_many.pointer,
                       scan.state(n))
    kernels.claim_slots(index.pointer, capacity, new_keys.pointer, how_many.pointer, next_row, n)
    kernels.write_keys(index.pointer, capacity, new_keys.pointer, how_many.pointer, next_row, n)
    return int(found.read()[0]) if new is None else new

"""The hash index from keys to rows (hash_index.cu)."""
from .host import INT32, INT64, POINTER, declare, kernels

declare("clear_index", None, POINTER, INT64)
declare("find", INT64, POINTER, INT64, POINTER, INT64, POINTER)
declare("insert", INT64, POINTER, INT64, POINTER, INT64, POINTER, INT32)


def capacity(rows):
    """Slots of an index for that many rows: a power of two, at most two thirds of it in use when all rows are."""
    return 1 << max(3, (rows + (rows + 1) // 2 - 1).bit_length())


def clear(index, capacity):
    """Empties all slots of index, a pointer to int64 [capacity, 2]."""
    kernels.clear_index(index, capacity)


def find(index, capacity, keys, n, rows):
    """Looks keys up.

    Args:
        index: pointer to int64 [capacity, 2], a key and its row in each slot; row -1 marks an empty one, whatever
            its key.
        capacity: slots of the index, a power of two.
        keys: pointer to int64 [n].
        n: number of keys.
        rows: pointer to int32 [n], out: the row of each key, -1 for a missing one.

    Returns:
        How many of the n keys are missing.
    """
    return kernels.find(index, capacity, keys, n, rows)


def insert(index, capacity, keys, n, rows, next_row):
    """Gives the keys that `find` missed the rows next_row, next_row + 1, ... in order of first appearance.

    Args:
        index: pointer to int64 [capacity, 2], changed.
        capacity: slots of the index, a power of two.
        keys: pointer to int64 [n]; a repeated new key gets one row.
        n: number of keys.
        rows: pointer to int32 [n]: where it is -1 the key's row is written, elsewhere it is left.
        next_row: the lowest row not in use.

    Returns:
        The number of rows given out.

    Raises:
        OverflowError: the index has fewer empty slots than there are new keys. The index is as it was.
    """
    inserted = kernels.insert(index, capacity, keys, n, rows, next_row)
    if inserted < 0:
        raise OverflowError("The hash index is full: {} slots, {} rows in use, and among the {} keys asked for "
                            "are more new ones than empty slots.".format(capacity, next_row, n))
    return inserted

"""Keys put into the hash index with rows of any number, moved to a larger one, and taken out of it (index_rows.cu)."""
from . import fill
from .backend import INT64, POINTER, current, family, kernels

declare = family(__name__)
declare("place_keys", None, POINTER, INT64, POINTER, POINTER, INT64)
declare("claim_for_keys", None, POINTER, INT64, POINTER, INT64, threads=lambda a: a[3])
declare("write_claimed", None, POINTER, INT64, POINTER, POINTER, INT64, threads=lambda a: a[4])
declare("move_keys", None, POINTER, INT64, POINTER, INT64)
declare("claim_for_slots", None, POINTER, INT64, POINTER, INT64, threads=lambda a: a[1])
declare("write_moved", None, POINTER, INT64, POINTER, INT64, threads=lambda a: a[1])
declare("mark_leaving", None, POINTER, INT64, POINTER, POINTER, threads=lambda a: a[1])
declare("find_runs", None, POINTER, INT64, POINTER, threads=lambda a: (a[1] + 31) // 32)
declare("sweep_runs", None, POINTER, INT64, POINTER, POINTER, POINTER, POINTER, threads=lambda a: a[1])


def place(index: int, capacity: int, keys: int, rows: int, n: int) -> None:
    """Puts new keys into the index, each with its row.

    Args:
        index: pointer to int64 [capacity, 2], see hash_index.py, changed.
        capacity: slots of the index, a power of two, of which more than n are empty.
        keys: pointer to int64 [n], distinct, none in the index.
        rows: pointer to int32 [n].
        n: number of keys, below 2**31.
    """
    if not n:
        return
    if current() is None:
        kernels.place_keys(index, capacity, keys, rows, n)
        return
    kernels.claim_for_keys(index, capacity, keys, n)
    kernels.write_claimed(index, capacity, keys, rows, n)


def move(old: int, slots: int, index: int, capacity: int) -> None:
    """Puts all keys of an index, with their rows, into an empty one: as if they came in the order of their rows.

    Args:
        old: pointer to int64 [slots, 2], see hash_index.py.
        slots: its slots.
        index: pointer to int64 [capacity, 2], empty, changed.
        capacity: its slots, a power of two; more than there are keys.
    """
    if current() is None:
        kernels.move_keys(old, slots, index, capacity)
        return
    kernels.claim_for_slots(old, slots, index, capacity)
    kernels.write_moved(old, slots, index, capacity)


def scratch_bytes(table_rows: int, capacity: int) -> int:
    """Bytes of scratch memory for `take_out`: two bits for each row, and one for each slot."""
    return 8 * (2 * _words(table_rows) + _words(capacity))


def _words(bits: int) -> int:
    return (bits + 63) // 64


def take_out(index: int, capacity: int, rows: int, n: int, table_rows: int, scratch: int, keys: int) -> None:
    """Takes the keys of rows out of the index. It is read and written as a whole: take out many at once.

    Args:
        index: pointer to int64 [capacity, 2], see hash_index.py, changed. It has at least one empty slot.
        capacity: slots of the index.
        rows: pointer to int32 [n], ascending, all in the index.
        n: number of rows.
        table_rows: rows of the table.
        scratch: pointer to scratch_bytes(table_rows, capacity) bytes.
        keys: pointer to int64 [n], out: each row's key.
    """
    if not n:
        return
    before = scratch + 8 * _words(table_rows)
    starts = before + 8 * _words(table_rows)
    fill.fill_int64(scratch, _words(table_rows), 0)
    kernels.mark_leaving(rows, n, scratch, before)
    if current() is not None:
        kernels.find_runs(index, capacity, starts)
    kernels.sweep_runs(index, capacity, starts, scratch, before, keys)

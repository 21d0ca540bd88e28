"""Keys put into the hash index with rows of any number, moved to a larger one, and taken out of it (index_rows.cu)."""
from . import fill, hash_index
from .arrays import Array, array, need, need_room
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


def place(index: Array, keys: Array, rows: Array) -> None:
    """Puts new keys into the index, each with its row.

    Args:
        index: int64 [capacity, 2], see hash_index.py, changed. More than n of its slots are empty.
        keys: int64 [n], distinct, none in the index; n below 2**31.
        rows: int32 [n].
    """
    n, capacity = keys.size, hash_index.slots(index)
    need("keys", keys, "int64", n)
    need("rows", rows, "int32", n)
    if not n:
        return
    if current() is None:
        kernels.place_keys(index.pointer, capacity, keys.pointer, rows.pointer, n)
        return
    kernels.claim_for_keys(index.pointer, capacity, keys.pointer, n)
    kernels.write_claimed(index.pointer, capacity, keys.pointer, rows.pointer, n)


def move(old: Array, index: Array) -> None:
    """Puts all keys of an index, with their rows, into an empty one: as if they came in the order of their rows.

    Args:
        old: int64 [slots, 2], see hash_index.py.
        index: int64 [capacity, 2], empty, changed. It has more slots than there are keys.
    """
    slots, capacity = hash_index.slots(old), hash_index.slots(index)
    if current() is None:
        kernels.move_keys(old.pointer, slots, index.pointer, capacity)
        return
    kernels.claim_for_slots(old.pointer, slots, index.pointer, capacity)
    kernels.write_moved(old.pointer, slots, index.pointer, capacity)


def scratch_bytes(table_rows: int, capacity: int) -> int:
    """Bytes of scratch memory for `take_out`: two bits for each row, and one for each slot."""
    return 8 * (2 * _words(table_rows) + _words(capacity))


def _words(bits: int) -> int:
    return (bits + 63) // 64


def take_out(index: Array, rows: Array, table_rows: int, scratch: Array, keys: Array) -> None:
    """Takes the keys of rows out of the index. It is read and written as a whole: take out many at once.

    Args:
        index: int64 [capacity, 2], see hash_index.py, changed. It has at least one empty slot.
        rows: int32 [n], ascending, all in the index.
        table_rows: rows of the table.
        scratch: uint8 [scratch_bytes(table_rows, capacity)] or more.
        keys: int64 [n], out: each row's key.
    """
    n, capacity, words = rows.size, hash_index.slots(index), _words(table_rows)
    need("rows", rows, "int32", n)
    need("keys", keys, "int64", n)
    need_room("scratch", scratch, "uint8", scratch_bytes(table_rows, capacity))
    if not n:
        return
    leaving = array(scratch.pointer, "int64", (words,), scratch.gpu)
    before = leaving.pointer + 8 * words
    starts = before + 8 * words
    fill.fill_int64(leaving, 0)
    kernels.mark_leaving(rows.pointer, n, leaving.pointer, before)
    if current() is not None:
        kernels.find_runs(index.pointer, capacity, starts)
    kernels.sweep_runs(index.pointer, capacity, starts, leaving.pointer, before, keys.pointer)

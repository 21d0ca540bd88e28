"""A whole batch looked up in one pass (lookup.cu)."""
import ctypes

from .host import INT32, INT64, KEY_TYPES, POINTER, declare, kernels
from .unique import scratch_bytes

declare("look_up", INT64, POINTER, INT32, INT64, POINTER, INT64, POINTER, INT64, POINTER, POINTER, POINTER, INT64,
        POINTER, POINTER, POINTER, POINTER)


def look_up(keys, key_type, n, index, capacity, table, dim, values, inverse, scratch, rows, distinct_rows, out):
    """Finds every position's row and, unless `out` is 0, copies it; makes the keys distinct besides.

    Args:
        keys: pointer to n keys of `key_type`: 'int64', 'int32' or 'uint32'.
        index, capacity: the hash index, see `hash_index.find`.
        table: pointer to float32 [rows, dim].
        values, inverse, scratch: as for `unique.unique`.
        rows: pointer to int32 [n], out: the row of each position, -1 for a missing key.
        distinct_rows: pointer to int32 [n], out: the rows of the distinct keys, at its front.
        out: pointer to float32 [n, dim], out: each position's values; those of missing keys are not written. Or 0.

    Returns:
        (the number of distinct keys, the number of positions whose key is missing).
    """
    missing = ctypes.c_int64()
    distinct = kernels.look_up(keys, KEY_TYPES[key_type], n, index, capacity, table, dim, values, inverse, scratch,
                               scratch_bytes(n) // 4, rows, distinct_rows, out, ctypes.addressof(missing))
    return distinct, missing.value

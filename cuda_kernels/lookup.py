"""A whole batch looked up in one pass (lookup.cu)."""
from . import gather
from .backend import INT32, INT64, KEY_TYPES, POINTER, counts, current, family, kernels

declare = family(__name__)
for _name in ("look_up", "look_up_half"):
    declare(_name, INT64, POINTER, INT32, INT64, POINTER, INT64, POINTER, INT64, POINTER, POINTER)
declare("find_keys", None, POINTER, INT32, INT64, POINTER, INT64, POINTER, POINTER, threads=lambda a: a[2])


def look_up(keys: int, key_type: str, n: int, index: int, capacity: int, table: int, dim: int, rows: int, out: int,
            dtype: str = "float32") -> int:
    """Finds every position's row and, unless `out` is 0, copies it.

    Args:
        keys: pointer to n keys of `key_type`: 'int64', 'int32' or 'uint32'.
        n: number of keys.
        index: pointer to the hash index, see `hash_index.find`.
        capacity: its slots.
        table: pointer to float32 [rows, dim].
        dim: floats of a row.
        rows: pointer to int32 [n], out: the row of each position, -1 for a missing key.
        out: pointer to float32 or float16 [n, dim], out: each position's values; those of missing keys are
            undefined. Or 0.
        dtype: that of `out`; to float16 the values are rounded.

    Returns:
        The number of positions whose key is missing.
    """
    if current() is None:
        kernel = kernels.look_up if dtype == "float32" else kernels.look_up_half
        return kernel(keys, KEY_TYPES[key_type], n, index, capacity, table, dim, rows, out)
    found = counts()
    start(keys, key_type, n, index, capacity, rows, found.take())
    found.ask()
    if out:
        gather.gather(table, dim, rows, n, out, dtype=dtype)
    return found.read()[0]


def start(keys: int, key_type: str, n: int, index: int, capacity: int, rows: int, missing: int) -> None:
    """Finds every position's row on a GPU without waiting; *missing, a pointer from `counts().take()` or 0, counts."""
    kernels.find_keys(keys, KEY_TYPES[key_type], n, index, capacity, rows, missing)

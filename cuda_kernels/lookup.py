"""A whole batch looked up in one pass (lookup.cu)."""
from typing import Optional

from . import gather, hash_index
from .arrays import Array, need, need_rows, pointer, width
from .backend import INT32, INT64, POINTER, counts, current, family, kernels, key_type

declare = family(__name__)
for _name in ("look_up", "look_up_half"):
    declare(_name, INT64, POINTER, INT32, INT64, POINTER, INT64, POINTER, INT64, POINTER, POINTER)
declare("find_keys", None, POINTER, INT32, INT64, POINTER, INT64, POINTER, POINTER, threads=lambda a: a[2])


def look_up(keys: Array, index: Array, table: Array, rows: Array, out: Optional[Array]) -> int:
    """Finds every position's row and, unless `out` is None, copies it.

    Args:
        keys: int64, int32 or uint32 [n].
        index: int64 [capacity, 2], the hash index, see `hash_index.find`.
        table: float32 [V, dim].
        rows: int32 [n], out: the row of each position, -1 for a missing key.
        out: float32 or float16 [n, dim], out: each position's values, in float16 rounded; those of missing keys are
            undefined. Or None.

    Returns:
        The number of positions whose key is missing.
    """
    kind, dim, half = _checked(keys, index, rows), width(table), out is not None and out.dtype == "float16"
    need("table", table, "float32", table.size)
    if out is not None:
        need_rows("out", out, "float16" if half else "float32", keys.size, dim)
    if current() is None:
        kernel = kernels.look_up_half if half else kernels.look_up
        return kernel(keys.pointer, kind, keys.size, index.pointer, index.shape[0], table.pointer, dim, rows.pointer,
                      pointer(out))
    found = counts()
    start(keys, index, rows, found.take())
    found.ask()
    if out is not None:
        gather.gather(table, rows, out)
    return found.read()[0]


def _checked(keys: Array, index: Array, rows: Array) -> int:
    """The number of the key type."""
    hash_index.slots(index)
    need("keys", keys, keys.dtype, keys.size)
    need("rows", rows, "int32", keys.size)
    return key_type(keys)


def start(keys: Array, index: Array, rows: Array, missing: Optional[Array]) -> None:
    """Finds every position's row on a GPU without waiting; missing, a place from `counts().take()` or None, counts."""
    kind = _checked(keys, index, rows)
    kernels.find_keys(keys.pointer, kind, keys.size, index.pointer, index.shape[0], rows.pointer, pointer(missing))

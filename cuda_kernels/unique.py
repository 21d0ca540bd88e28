"""Keys of a batch, widened and made distinct (unique.cu)."""
from . import scan
from .arrays import Array, need, need_room
from .backend import INT32, INT64, POINTER, counts, current, family, kernels, key_type

declare = family(__name__)
declare("unique", INT64, POINTER, INT32, INT64, POINTER, POINTER, POINTER, INT64)
declare("unique_claim", None, POINTER, INT32, INT64, POINTER, POINTER, INT64, threads=lambda a: a[2])
declare("unique_number", None, POINTER, INT32, INT64, POINTER, POINTER, POINTER, POINTER, POINTER, POINTER,
        threads=lambda a: scan.threads(a[2]), block=scan.BLOCK, exact=True)
declare("unique_inverse", None, POINTER, INT64, POINTER, POINTER, threads=lambda a: a[1])
declare("widen", None, POINTER, INT32, INT64, POINTER, threads=lambda a: a[2])


def slots(n: int) -> int:
    """Places of the scratch table of n keys: a power of two, at least 2n, and 4n as long as it stays within a megabyte.

    Shorter probe sequences mean fewer mispredicted branches (a quarter of the time at 53 k keys), but a table
    that leaves the second-level cache costs more than it saves. A GPU's is larger.
    """
    places = 1 << max(4, (2 * n - 1).bit_length())
    return 2 * places if places <= 1 << (17 if current() is None else 20) else places


def scratch_bytes(n: int) -> int:
    """Bytes of scratch that `unique` needs for n keys on the current device.

    Raises:
        ValueError: n is too large for int32 numbers.
    """
    if n >= 1 << 31:
        raise ValueError("A batch may have up to 2**31 - 1 keys on one rank, got {}.".format(n))
    if current() is None:
        return 4 * slots(n)
    return scan.state_bytes(n) + 4 * slots(n) + 4 * n


def unique(keys: Array, values: Array, inverse: Array, scratch: Array) -> int:
    """Numbers the distinct keys in the order in which they first appear.

    Args:
        keys: int64, int32 or uint32 [n].
        values: int64 [n], out: the distinct keys, then undefined.
        inverse: int32 [n], out: values[inverse[i]] == keys[i].
        scratch: uint8 [scratch_bytes(n)] or more, 8-byte aligned; need not be cleared.

    Returns:
        The number U of distinct keys.
    """
    n, kind = keys.size, _checked(keys, values, inverse)
    if current() is None:
        places = slots(n)
        need_room("scratch", scratch, "uint8", 4 * places)
        return kernels.unique(keys.pointer, kind, n, values.pointer, inverse.pointer, scratch.pointer, places)
    need_room("scratch", scratch, "uint8", scratch_bytes(n))  # before a place is taken
    found = counts()
    start(keys, values, inverse, scratch, found.take())
    return found.read()[0]


def _checked(keys: Array, values: Array, inverse: Array) -> int:
    """The number of the key type."""
    n = keys.size
    need("keys", keys, keys.dtype, n)
    need("values", values, "int64", n)
    need("inverse", inverse, "int32", n)
    return key_type(keys)


def start(keys: Array, values: Array, inverse: Array, scratch: Array, count: Array) -> None:
    """`unique` on a GPU without waiting: their number goes into count, a place from `counts().take()`."""
    n, kind = keys.size, _checked(keys, values, inverse)
    places, state_bytes = slots(n), scan.state_bytes(n)
    need_room("scratch", scratch, "uint8", scratch_bytes(n))
    table = scratch.pointer + state_bytes
    rank = table + 4 * places
    current().clear(scratch.pointer, state_bytes + 4 * places)
    kernels.unique_claim(keys.pointer, kind, n, inverse.pointer, table, places)
    kernels.unique_number(keys.pointer, kind, n, inverse.pointer, table, values.pointer, rank, count.pointer,
                          scratch.pointer)
    kernels.unique_inverse(inverse.pointer, n, table, rank)


def widen(keys: Array, out: Array) -> None:
    """Copies keys of any type as int64.

    Args:
        keys: int64, int32 or uint32 [n].
        out: int64 [n].
    """
    n = keys.size
    need("keys", keys, keys.dtype, n)
    need("out", out, "int64", n)
    kernels.widen(keys.pointer, key_type(keys), n, out.pointer)

"""Keys of a batch, widened and made distinct (unique.cu)."""
from . import scan
from .backend import INT32, INT64, KEY_TYPES, POINTER, counts, current, family, kernels

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


def unique(keys: int, key_type: str, n: int, values: int, inverse: int, scratch: int) -> int:
    """Numbers the distinct keys in the order in which they first appear.

    Args:
        keys: pointer to [n] of key_type.
        key_type: 'int64', 'int32' or 'uint32'.
        n: number of keys.
        values: pointer to int64 [n], out: the distinct keys, then undefined.
        inverse: pointer to int32 [n], out: values[inverse[i]] == keys[i].
        scratch: pointer to scratch_bytes(n) bytes, 8-byte aligned; need not be cleared.

    Returns:
        The number U of distinct keys.
    """
    gpu = current()
    if gpu is None:
        return kernels.unique(keys, KEY_TYPES[key_type], n, values, inverse, scratch, slots(n))
    found = counts()
    start(keys, key_type, n, values, inverse, scratch, found.take())
    return found.read()[0]


def start(keys: int, key_type: str, n: int, values: int, inverse: int, scratch: int, count: int) -> None:
    """`unique` on a GPU without waiting: their number goes into *count, a pointer from `counts().take()`."""
    places, kind = slots(n), KEY_TYPES[key_type]
    table = scratch + scan.state_bytes(n)
    rank = table + 4 * places
    current().clear(scratch, scan.state_bytes(n) + 4 * places)
    kernels.unique_claim(keys, kind, n, inverse, table, places)
    kernels.unique_number(keys, kind, n, inverse, table, values, rank, count, scratch)
    kernels.unique_inverse(inverse, n, table, rank)


def widen(keys: int, key_type: str, n: int, out: int) -> None:
    """Copies keys of any type as int64.

    Args:
        keys: pointer to [n] of key_type.
        key_type: 'int64', 'int32' or 'uint32'.
        n: number of keys.
        out: pointer to int64 [n].
    """
    kernels.widen(keys, KEY_TYPES[key_type], n, out)

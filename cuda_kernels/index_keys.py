"""The key of each row of a shard (index_keys.cu)."""
from . import hash_index
from .arrays import Array, need
from .backend import INT64, POINTER, family, kernels

declare = family(__name__)
declare("keys_by_row", None, POINTER, INT64, INT64, INT64, POINTER, threads=lambda a: a[1])
declare("direct_keys", None, INT64, INT64, INT64, INT64, POINTER, threads=lambda a: a[1])


def keys_by_row(index: Array, first: int, keys: Array) -> None:
    """The keys of n rows in turn, as the hash index has them. It is read as a whole, so ask for many rows at once.

    Args:
        index: int64 [capacity, 2], see hash_index.py.
        first: the first row that is asked for.
        keys: int64 [n], out; where a row is not in use it is left.
    """
    need("keys", keys, "int64", keys.size)
    kernels.keys_by_row(index.pointer, hash_index.slots(index), first, keys.size, keys.pointer)


def direct_keys(first: int, ranks: int, rank: int, keys: Array) -> None:
    """The keys of n rows in turn of a table without index: row * ranks + rank.

    Args:
        first: the first row that is asked for.
        ranks: number of ranks over which the table is spread.
        rank: this one.
        keys: int64 [n], out.
    """
    need("keys", keys, "int64", keys.size)
    kernels.direct_keys(first, keys.size, ranks, rank, keys.pointer)

"""The key of each row of a shard (index_keys.cu)."""
from .backend import INT64, POINTER, family, kernels

declare = family(__name__)
declare("keys_by_row", None, POINTER, INT64, INT64, INT64, POINTER, threads=lambda a: a[1])
declare("direct_keys", None, INT64, INT64, INT64, INT64, POINTER, threads=lambda a: a[1])


def keys_by_row(index: int, capacity: int, first: int, n: int, keys: int) -> None:
    """The keys of n rows in turn, as the hash index has them. It is read as a whole, so ask for many rows at once.

    Args:
        index: pointer to int64 [capacity, 2], see hash_index.py.
        capacity: slots of the index.
        first: the first row that is asked for.
        n: number of rows.
        keys: pointer to int64 [n], out; where a row is not in use it is left.
    """
    kernels.keys_by_row(index, capacity, first, n, keys)


def direct_keys(first: int, n: int, ranks: int, rank: int, keys: int) -> None:
    """The keys of n rows in turn of a table without index: row * ranks + rank.

    Args:
        first: the first row that is asked for.
        n: number of rows.
        ranks: number of ranks over which the table is spread.
        rank: this one.
        keys: pointer to int64 [n], out.
    """
    kernels.direct_keys(first, n, ranks, rank, keys)

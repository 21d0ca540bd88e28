"""Keys grouped by the rank that owns them (partition.cu)."""
from . import sort
from .backend import INT64, POINTER, current, family, kernels

declare = family(__name__)
declare("partition", None, POINTER, INT64, INT64, POINTER, POINTER, POINTER)
declare("owners", None, POINTER, INT64, INT64, POINTER, threads=lambda a: a[1])
declare("group", None, POINTER, POINTER, POINTER, INT64, POINTER, POINTER, POINTER, threads=lambda a: a[3])
declare("permute", None, POINTER, POINTER, INT64, POINTER, threads=lambda a: a[2])
declare("remap", None, POINTER, POINTER, INT64, threads=lambda a: a[2])


def partition(keys: int, n: int, parts: int, counts: int, grouped: int, position: int) -> None:
    """Groups keys by their owner, key mod parts (never negative), in a stable way.

    Args:
        keys: pointer to int64 [n], distinct or not.
        n: number of keys, below 2**31.
        parts: number of owners, at least 1.
        counts: pointer to int64 [parts], out: keys of each owner.
        grouped: pointer to int64 [n], out: the keys of owner 0 in their order, of owner 1, ...
        position: pointer to int32 [n], out: grouped[position[i]] == keys[i].
    """
    gpu = current()
    if gpu is None:
        kernels.partition(keys, n, parts, counts, grouped, position)
        return
    gpu.clear(counts, 8 * parts)
    if not n:
        return
    owners, sorted_owners, places = gpu.allocate(4 * n), gpu.allocate(4 * n), gpu.allocate(4 * n)
    kernels.owners(keys, n, parts, owners)
    sort.order(owners, n, parts, sorted_owners, places)
    kernels.group(keys, sorted_owners, places, n, grouped, position, counts)


def permute(values: int, position: int, n: int, out: int) -> None:
    """Moves int64 values: out[position[i]] = values[i].

    Args:
        values: pointer to int64 [n].
        position: pointer to int32 [n], a permutation of 0..n-1.
        n: number of values.
        out: pointer to int64 [n], not values.
    """
    kernels.permute(values, position, n, out)


def remap(inverse: int, position: int, n: int) -> None:
    """Renumbers in place: inverse[i] = position[inverse[i]].

    Args:
        inverse: pointer to int32 [n], each a valid place of position.
        position: pointer to int32.
        n: number of items of inverse.
    """
    kernels.remap(inverse, position, n)

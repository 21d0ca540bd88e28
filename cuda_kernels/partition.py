"""Keys grouped by the rank that owns them (partition.cu)."""
from . import sort
from .arrays import Array, allocated, need
from .backend import INT64, POINTER, current, family, kernels

declare = family(__name__)
declare("partition", None, POINTER, INT64, INT64, POINTER, POINTER, POINTER)
declare("owners", None, POINTER, INT64, INT64, POINTER, threads=lambda a: a[1])
declare("group", None, POINTER, POINTER, POINTER, INT64, POINTER, POINTER, POINTER, threads=lambda a: a[3])
declare("permute", None, POINTER, POINTER, INT64, POINTER, threads=lambda a: a[2])
declare("remap", None, POINTER, POINTER, INT64, threads=lambda a: a[2])


def partition(keys: Array, counts: Array, grouped: Array, position: Array) -> None:
    """Groups keys by their owner, key mod parts (never negative), in a stable way.

    Args:
        keys: int64 [n], distinct or not; n below 2**31.
        counts: int64 [parts], out: keys of each owner; at least one owner.
        grouped: int64 [n], out: the keys of owner 0 in their order, of owner 1, ...
        position: int32 [n], out: grouped[position[i]] == keys[i].
    """
    n, parts = keys.size, counts.size
    need("keys", keys, "int64", n)
    need("counts", counts, "int64", parts)
    need("grouped", grouped, "int64", n)
    need("position", position, "int32", n)
    gpu = current()
    if gpu is None:
        kernels.partition(keys.pointer, n, parts, counts.pointer, grouped.pointer, position.pointer)
        return
    gpu.clear(counts.pointer, 8 * parts)
    if not n:
        return
    owners, sorted_owners, places = allocated(gpu, "uint32", n), allocated(gpu, "uint32", n), allocated(gpu, "int32", n)
    kernels.owners(keys.pointer, n, parts, owners.pointer)
    sort.order(owners, parts, sorted_owners, places)
    kernels.group(keys.pointer, sorted_owners.pointer, places.pointer, n, grouped.pointer, position.pointer,
                  counts.pointer)


def permute(values: Array, position: Array, out: Array) -> None:
    """Moves int64 values: out[position[i]] = values[i].

    Args:
        values: int64 [n].
        position: int32 [n], a permutation of 0..n-1.
        out: int64 [n], not values.
    """
    n = values.size
    need("values", values, "int64", n)
    need("position", position, "int32", n)
    need("out", out, "int64", n)
    kernels.permute(values.pointer, position.pointer, n, out.pointer)


def remap(inverse: Array, position: Array) -> None:
    """Renumbers in place: inverse[i] = position[inverse[i]].

    Args:
        inverse: int32 [n], each a valid place of position.
        position: int32 [*].
    """
    need("inverse", inverse, "int32", inverse.size)
    need("position", position, "int32", position.size)
    kernels.remap(inverse.pointer, position.pointer, inverse.size)

"""A stable sort on a GPU (sort.cu), for what must come in a fixed order."""
from . import scan
from .arrays import Array, allocated, need
from .backend import INT32, INT64, POINTER, current, family, kernels

# As in sort.cu, and as in host_group_sums.cu: threads of a block, items of a block, and how many bits of the keys a
# pass sorts by.
BLOCK, TILE, BITS = 256, 2048, 8
_NEGATIVE = 3  # negative numbers that keys may be


def _tiles(n: int) -> int:
    return (n + TILE - 1) // TILE


declare = family(__name__)
declare("sort_count", None, POINTER, INT64, INT32, POINTER, threads=lambda a: _tiles(a[1]) * BLOCK, block=BLOCK,
        exact=True)
declare("sort_place", None, POINTER, POINTER, INT64, INT32, POINTER, POINTER, POINTER,
        threads=lambda a: _tiles(a[2]) * BLOCK, block=BLOCK, exact=True)


def scratch_bytes(n: int) -> int:
    """Bytes of GPU memory that `order` takes at most, for itself."""
    counters = (1 << BITS) * _tiles(n)
    return 8 * n + 4 * (counters + 1) + -(-32 // BITS) * scan.state_bytes(counters)


def order(keys: Array, limit: int, sorted_keys: Array, places: Array) -> None:
    """Sorts numbers in a stable way; GPU only.

    Args:
        keys: uint32 [n], n below 2**31; or int32, of which -1, -2, and -3 come last, and no others are negative.
        limit: all keys are below it.
        sorted_keys: [n] of the same dtype, out. Not keys.
        places: int32 [n], out: sorted_keys[j] == keys[places[j]].
    """
    n, dtype = keys.size, keys.dtype
    need("keys", keys, "int32" if dtype == "int32" else "uint32", n)
    need("sorted_keys", sorted_keys, dtype, n)
    need("places", places, "int32", n)
    if not n:
        return
    gpu = current()
    # As unsigned numbers of so many bits negative ones must be above all others.
    above = limit + (_NEGATIVE if dtype == "int32" else 0)
    passes = max(1, ((max(1, above) - 1).bit_length() + BITS - 1) // BITS)
    counters = (1 << BITS) * _tiles(n)
    counts = allocated(gpu, "int32", counters + 1)
    other_keys, other_places = sorted_keys, places
    if passes > 1:
        other_keys, other_places = allocated(gpu, dtype, n), allocated(gpu, "int32", n)
    source, source_places = keys, 0
    for number in range(passes):
        # The last pass must end in the caller's arrays.
        here = (passes - 1 - number) % 2 == 0
        target, target_places = (sorted_keys, places) if here else (other_keys, other_places)
        kernels.sort_count(source.pointer, n, BITS * number, counts.pointer)
        scan.running_sum(counts, counts, scan.state(counters))
        kernels.sort_place(source.pointer, source_places, n, BITS * number, counts.pointer, target.pointer,
                           target_places.pointer)
        source, source_places = target, target_places.pointer

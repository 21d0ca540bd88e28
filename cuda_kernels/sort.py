"""A stable sort on a GPU (sort.cu), for what must come in a fixed order."""
from . import scan
from .backend import INT32, INT64, POINTER, current, family, kernels

# As in sort.cu, and as in host_group_sums.cu: threads of a block, items of a block, and how many bits of the keys a
# pass sorts by.
BLOCK, TILE, BITS = 256, 2048, 8


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


def order(keys: int, n: int, limit: int, sorted_keys: int, places: int) -> None:
    """Sorts numbers in a stable way; GPU only.

    Args:
        keys: pointer to uint32 [n].
        n: number of keys, below 2**31.
        limit: all keys are below it.
        sorted_keys: pointer to uint32 [n], out. Not keys.
        places: pointer to int32 [n], out: sorted_keys[j] == keys[places[j]].
    """
    if not n:
        return
    gpu = current()
    passes = max(1, ((max(1, limit) - 1).bit_length() + BITS - 1) // BITS)
    counters = (1 << BITS) * _tiles(n)
    counts = gpu.allocate(4 * (counters + 1))
    other_keys, other_places = (gpu.allocate(4 * n), gpu.allocate(4 * n)) if passes > 1 else (0, 0)
    source, source_places = keys, 0
    for number in range(passes):
        # The last pass must end in the caller's arrays.
        here = (passes - 1 - number) % 2 == 0
        target, target_places = (sorted_keys, places) if here else (other_keys, other_places)
        kernels.sort_count(source, n, BITS * number, counts)
        scan.running_sum(counts, counters, counts, scan.state(counters))
        kernels.sort_place(source, source_places, n, BITS * number, counts, target, target_places)
        source, source_places = target, target_places

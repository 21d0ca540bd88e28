"""Running sums on a GPU (scan.cu), and the scratch memory that every scan needs."""
from .backend import INT64, POINTER, current, family, kernels

BLOCK, TILE = 256, 2048  # as in scan.cuh, and as in host_group_device.h


def tiles(n: int) -> int:
    """Blocks of a scan over n items."""
    return (n + TILE - 1) // TILE


def threads(n: int) -> int:
    """GPU threads of a scan over n items: whole tiles, all of them launched."""
    return tiles(n) * BLOCK


def state_bytes(n: int) -> int:
    """Bytes of a scan's state, which must be zero before."""
    return 8 * (1 + tiles(n))


def state(n: int) -> int:
    """A scan's state for n items, cleared: a pointer; 0 on the host, where a scan is a loop that needs none."""
    gpu = current()
    if gpu is None:
        return 0
    pointer = gpu.allocate(state_bytes(n))
    gpu.clear(pointer, state_bytes(n))
    return pointer


declare = family(__name__)
declare("running_sum", None, POINTER, INT64, POINTER, POINTER, threads=lambda a: threads(a[1]), block=BLOCK, exact=True)


def running_sum(values: int, n: int, out: int, state: int) -> None:
    """out[i] = values[0] + ... + values[i - 1] for i in [0, n]; GPU only.

    Args:
        values: pointer to int32 [n], n > 0; may be out.
        n: number of values.
        out: pointer to int32 [n + 1].
        state: pointer to `state_bytes(n)` bytes that are zero.
    """
    kernels.running_sum(values, n, out, state)

"""Running sums on a GPU (scan.cu), and the scratch memory that every scan needs."""
from .arrays import Array, need, need_room
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
    """A scan's state for n items, cleared: a pointer, for a kernel; 0 on the host, where a scan is a loop that needs
    none."""
    gpu = current()
    if gpu is None:
        return 0
    pointer = gpu.allocate(state_bytes(n))
    gpu.clear(pointer, state_bytes(n))
    return pointer


declare = family(__name__)
declare("running_sum", None, POINTER, INT64, POINTER, POINTER, threads=lambda a: threads(a[1]), block=BLOCK, exact=True)


def running_sum(values: Array, out: Array, state: int) -> None:
    """out[i] = values[0] + ... + values[i - 1] for i in [0, n]; GPU only.

    Args:
        values: int32 [n], or more, n > 0; may be out.
        out: int32 [n + 1].
        state: pointer to `state_bytes(n)` bytes that are zero, as `state` gives it.
    """
    n = out.size - 1
    need_room("values", values, "int32", n)
    need("out", out, "int32", n + 1)
    kernels.running_sum(values.pointer, n, out.pointer, state)

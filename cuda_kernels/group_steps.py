"""The steps of groups as C++ functions (group_steps.h): where graph_ops' C++ finds them, and a GPU as they see it."""
import ctypes
from typing import Any, Dict

from . import (
    backend,
    fill,
    gpu_driver,
    group_find,
    group_gather,
    group_partition,
    group_stamps,
    group_sum,
    group_unique,
    hash_index,
    host,
    row_init,
    scan,
    sort,
    stamps,
)

# The kernels that steps launch, in the order of `Kernel` in host_group_steps.cu.
KERNELS = ("group_find", "group_gather", "group_unique_claim", "group_unique_number", "group_unique_inverse",
           "group_partition_count", "group_partition_counts", "group_partition_place", "group_partition_remap",
           "group_sum_count", "group_sum_place", "group_sum_clear", "group_sum_chunks", "group_sum_keys",
           "group_sum_in_order", "group_move_clocks", "group_stamp_rows", "running_sum", "sort_count", "sort_place",
           "number_new", "claim_slots", "write_keys", "initial_rows", "fill_int64", "stamp_range")
# The families that declare them.
FAMILIES = (fill, group_find, group_gather, group_partition, group_stamps, group_sum, group_unique, hash_index,
            row_init, scan, sort, stamps)

# The driver's functions, in the order of GroupDevice.
_DRIVER = ("cuMemcpyHtoDAsync_v2", "cuMemsetD8Async", "cuMemcpyDtoHAsync_v2", "cuStreamSynchronize", "cuEventRecord",
           "cuEventSynchronize")

_RING_BYTES, _LANDING_BYTES = 4 << 20, 1 << 16

_devices: Dict[Any, "Device"] = {}


class _Device(ctypes.Structure):
    """host_group_steps.cu's GroupDevice."""

    _fields_ = [("kernels", ctypes.c_void_p * len(KERNELS)), ("driver", ctypes.c_void_p * len(_DRIVER)),
                ("stream", ctypes.c_void_p), ("ring", ctypes.c_void_p), ("half_bytes", ctypes.c_int64),
                ("copied", ctypes.c_void_p * 2), ("recorded", ctypes.c_int64 * 2), ("half", ctypes.c_int64),
                ("used", ctypes.c_int64), ("landing", ctypes.c_void_p), ("landing_bytes", ctypes.c_int64),
                ("deterministic", ctypes.c_int64)]


class Device:
    """A GPU as the steps use it, whose context must be the thread's current one.

    Attributes:
        address: of its GroupDevice.
    """

    def __init__(self, gpu: Any) -> None:
        there = device_bytes()
        assert there == ctypes.sizeof(_Device), (there, ctypes.sizeof(_Device))
        driver = gpu_driver.get()
        made = self._made = _Device()
        for number, name in enumerate(KERNELS):
            made.kernels[number] = gpu.kernel(backend.signature(name))
        for number, name in enumerate(_DRIVER):
            made.driver[number] = ctypes.cast(getattr(driver, name), ctypes.c_void_p).value
        self._pinned = gpu.pinned(_RING_BYTES), gpu.pinned(_LANDING_BYTES)
        made.ring, made.landing = [memory.ctypes.data for memory in self._pinned]
        made.half_bytes, made.landing_bytes = _RING_BYTES // 2, _LANDING_BYTES
        made.copied[0], made.copied[1] = driver.event(), driver.event()
        made.stream, made.deterministic = gpu.stream, int(gpu.deterministic)
        self.address = ctypes.addressof(made)


def functions() -> int:
    """The address of the table of steps, `GroupSteps`."""
    return host.function("group_steps", ctypes.c_void_p, [])()


def device_bytes() -> int:
    """The size of a GroupDevice."""
    return host.function("group_device_bytes", ctypes.c_int32, [])()


def device(gpu: Any) -> int:
    """The address of a `gpu.Gpu` as the steps use it; 0 for None, the host. The GPU's context must be current."""
    if gpu is None:
        return 0
    if gpu not in _devices:
        _devices[gpu] = Device(gpu)
    return _devices[gpu].address

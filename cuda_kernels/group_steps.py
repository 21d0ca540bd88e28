"""The steps of groups as C++ functions (group_steps.h): where graph_ops' C++ finds them, a GPU as they see it, and
calls of them from Python, which the wrappers group_NAME.py make.
"""
import ctypes
import importlib
from typing import Any, Dict, List

import numpy as np

from . import backend, gpu_driver, host

# The kernels that steps launch, in the order of `Kernel` in host_group_device.h.
KERNELS = ("group_find", "group_initial", "group_gather", "group_plain_gather", "group_unique_claim",
           "group_unique_number", "group_unique_inverse", "group_partition_count", "group_partition_counts",
           "group_partition_place", "group_partition_remap", "group_pairs", "group_parts", "group_bag_offsets",
           "group_longest_bags", "group_combine", "group_plain_combine", "group_short_combine",
           "group_weighted_combine", "group_weights", "group_sum_count", "group_sum_place", "group_sum_clear",
           "group_sum_chunks", "group_sum_plain_chunks", "group_sum_scaled_chunks", "group_sum_keys", "group_sum_bags",
           "group_sum_in_order", "group_move_clocks", "group_stamp_rows", "running_sum", "sort_count", "sort_place",
           "number_new", "claim_slots", "write_keys", "initial_rows", "fill_int64", "stamp_range", "look_up_int64",
           "group_descend", "group_lazy_adam", "give_rows", "claim_for_keys", "write_claimed", "move_rows",
           "reset_rows", "begin_rows", "stamp_given", "advance_clock", "begin_lookup", "touch_rows", "fill_int32",
           "group_sum_update_place", "group_sum_update_long", "group_descend_sums", "group_plain_descend_sums",
           "group_lazy_adam_sums", "group_plain_lazy_adam_sums", "group_find_and_start")
# The families that declare them: imported when a GPU is there, for some of them import this.
FAMILIES = ("cache_rows", "fill", "group_bags", "group_combine", "group_find", "group_gather", "group_initial",
            "group_pairs", "group_partition", "group_parts", "group_stamps", "group_sum", "group_sum_update",
            "group_unique", "group_update", "group_weights", "hash_index", "index_rows", "row_init", "row_numbers",
            "row_use", "scan", "sort", "stamps")

# The driver's functions, in the order of GroupDevice.
_DRIVER = ("cuMemcpyHtoDAsync_v2", "cuMemsetD8Async", "cuMemcpyDtoHAsync_v2", "cuStreamSynchronize", "cuEventRecord",
           "cuEventSynchronize")

_RING_BYTES, _LANDING_BYTES = 4 << 20, 1 << 16
_MOST_ANSWERS = 4096  # numbers that are asked for at a time

_POINTER, _I64 = ctypes.c_void_p, ctypes.c_int64
_ALLOCATE = ctypes.CFUNCTYPE(_POINTER, _POINTER, _I64)
_NO_MEMORY, _TOO_MANY = -1, -2  # GroupError in group_steps.h

_devices: Dict[Any, "Device"] = {}


class GroupDevice(ctypes.Structure):
    """host_group_device.h's GroupDevice."""

    _fields_ = [("kernels", _POINTER * len(KERNELS)), ("driver", _POINTER * len(_DRIVER)), ("stream", _POINTER),
                ("ring", _POINTER), ("half_bytes", _I64), ("copied", _POINTER * 2), ("recorded", _I64 * 2),
                ("half", _I64), ("used", _I64), ("landing", _POINTER), ("landing_bytes", _I64),
                ("answers", _POINTER), ("answers_seen", _POINTER), ("most_answers", _I64), ("asked", _POINTER),
                ("deterministic", _I64)]


class GroupWork(ctypes.Structure):
    """group_steps.h's GroupWork."""

    _fields_ = [("device", _POINTER), ("allocate", _ALLOCATE), ("owner", _POINTER)]


def _step(*arguments: Any) -> Any:
    return ctypes.CFUNCTYPE(ctypes.c_int32, _POINTER, *arguments)


class GroupSteps(ctypes.Structure):
    """group_steps.h's GroupSteps."""

    _fields_ = [("nbytes", _I64), ("place", _step(_I64, _POINTER, _POINTER, _POINTER)),
                ("read", _step(_POINTER, _I64, _POINTER)), ("read_each", _step(_POINTER, _I64, _POINTER)),
                ("ask", _step(_POINTER, _I64)), ("answer", _step(_POINTER, _I64, _POINTER)),
                ("find", _step(_POINTER, _I64, _POINTER)),
                ("look_up", _step(_POINTER, _I64, _POINTER, _POINTER, _I64, _POINTER)),
                ("look_up_bags", _step(_POINTER, _I64, _POINTER, _POINTER, _POINTER, _POINTER)),
                ("look_up_one_each", _step(_POINTER, _I64, _POINTER, _POINTER)),
                ("initial", _step(_POINTER, _I64)), ("gather", _step(_POINTER, _I64)),
                ("unique", _step(_POINTER, _I64, _POINTER)),
                ("partition", _step(_POINTER, _I64, _POINTER, _I64, _POINTER, _POINTER)),
                ("pairs", _step(_POINTER, _I64)),
                ("bag_offsets", _step(_POINTER, _I64, _POINTER)), ("combine", _step(_POINTER, _I64)),
                ("sum_parts", _step(_POINTER, _I64)),
                ("segment_sum", _step(_POINTER, _I64)), ("weights", _step(_POINTER, _I64)),
                ("stamp", _step(_POINTER, _I64)),
                ("insert", _step(_POINTER, _I64)), ("touch", _step(_POINTER, _I64)),
                ("leave_out", _step(_POINTER, _I64)),
                ("descend", _step(_POINTER, _I64)),
                ("lazy_adam", _step(_POINTER, _I64)),
                ("sum_descend", _step(_POINTER, _I64, _POINTER)), ("sum_lazy_adam", _step(_POINTER, _I64, _POINTER)),
                ("kernels", ctypes.CFUNCTYPE(_I64))]


class Device:
    """A GPU as the steps use it, whose context must be the thread's current one.

    Attributes:
        made: its GroupDevice.
    """

    def __init__(self, gpu: Any) -> None:
        there = device_bytes()
        assert there == ctypes.sizeof(GroupDevice), (there, ctypes.sizeof(GroupDevice))
        for family in FAMILIES:
            importlib.import_module("." + family, __package__)
        driver = gpu_driver.get()
        made = self.made = GroupDevice()
        for number, name in enumerate(KERNELS):
            made.kernels[number] = gpu.kernel(backend.signature(name))
        for number, name in enumerate(_DRIVER):
            made.driver[number] = ctypes.cast(getattr(driver, name), _POINTER).value
        self._pinned = gpu.pinned(_RING_BYTES), gpu.pinned(_LANDING_BYTES)
        made.ring, made.landing = [memory.ctypes.data for memory in self._pinned]
        made.half_bytes, made.landing_bytes = _RING_BYTES // 2, _LANDING_BYTES
        self._answers, made.answers_seen = gpu.mapped(_MOST_ANSWERS)
        made.answers, made.most_answers, made.asked = self._answers.ctypes.data, _MOST_ANSWERS, driver.event()
        made.copied[0], made.copied[1] = driver.event(), driver.event()
        made.stream = gpu.stream


def functions() -> int:
    """The address of the table of steps, `GroupSteps`."""
    return host.function("group_steps", _POINTER, [])()


def device_bytes() -> int:
    """The size of a GroupDevice."""
    return host.function("group_device_bytes", ctypes.c_int32, [])()


def steps() -> GroupSteps:
    """The table of steps."""
    table = GroupSteps.from_address(functions())
    assert table.nbytes == ctypes.sizeof(GroupSteps), (table.nbytes, ctypes.sizeof(GroupSteps))
    return table


def device(gpu: Any) -> int:
    """The address of a `gpu.Gpu` as the steps use it; 0 for None, the host. The GPU's context must be current."""
    if gpu is None:
        return 0
    if gpu not in _devices:
        _devices[gpu] = Device(gpu)
    made = _devices[gpu].made
    made.deterministic = int(gpu.deterministic)
    return ctypes.addressof(made)


def run(name: str, members: np.ndarray, *arguments: int) -> None:
    """Has a step done for members on the current device, with scratch memory of the current request.

    Args:
        name: of GroupSteps. members: records [T] of the step's dtype. *arguments: what it takes besides.

    Raises:
        MemoryError: there is no scratch memory.
        ValueError: there are more keys or rows than int32 numbers can tell apart.
        gpu_driver.DriverError: CUDA refuses.
    """
    gpu = backend.current()
    scratch: List[np.ndarray] = []  # the host's, until the step is done

    def allocate(_: Any, nbytes: int) -> int:
        if gpu is not None:
            return gpu.allocate(nbytes)
        scratch.append(np.empty(nbytes, np.uint8))
        return scratch[-1].ctypes.data

    work = GroupWork(device(gpu), _ALLOCATE(allocate), None)
    code = getattr(steps(), name)(ctypes.addressof(work), members.ctypes.data, len(members), *map(int, arguments))
    if code == _NO_MEMORY:
        raise MemoryError("There is no scratch memory for the {} tables of a group.".format(len(members)))
    if code == _TOO_MANY:
        raise ValueError("A group of {} tables may have up to 2**31 - 1 keys or rows in all on one rank.".format(
            len(members)))
    if code:
        gpu_driver.get().check(code, name)

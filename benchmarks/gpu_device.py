"""The device that is measured: its memory, its copy bandwidth, what it is. The host stands in where there is no GPU."""
import contextlib
import ctypes
import os
import re
import subprocess
import time

import numpy as np

from sok1x.cuda_kernels import arrays, backend
from sok1x.cuda_kernels import gpu as gpus


def get(kind="auto"):
    """The device: kind 'gpu', 'cpu', or 'auto', a GPU where PyCUDA finds one."""
    if kind == "auto":
        kind = "gpu" if gpus.count() else "cpu"
    return GpuDevice() if kind == "gpu" else HostDevice()


class GpuDevice:
    """The first GPU that this process sees. `gpu`: its `Gpu`, made when it is first asked for.

    TensorFlow should have made its context before, so that it has the flags that TensorFlow wants.
    """

    tensorflow_name = "/gpu:0"
    _SCRATCH = 64 << 20

    def __init__(self):
        self._gpu = None
        self._memory, self._scratch, self._used = {}, None, 0

    @property
    def gpu(self):
        if self._gpu is None:
            self._gpu = gpus.get(0)
        return self._gpu

    @property
    def _driver(self):
        return self.gpu._driver

    def synchronize(self):
        """Waits for all that the GPU has to do, of every stream."""
        with self.gpu.active():
            self._driver.Context.synchronize()

    @contextlib.contextmanager
    def use(self):
        """Kernels called inside run here; scratch memory is free again when the block ends."""
        gpu = self.gpu
        with gpu.active(), backend.use(gpu):
            if self._scratch is None:
                self._scratch = self._driver.mem_alloc(self._SCRATCH)
            before, gpu.allocate = gpu.allocate, self._allocate
            try:
                yield
            finally:
                gpu.allocate, self._used = before, 0

    def _allocate(self, nbytes):
        pointer = int(self._scratch) + self._used
        self._used += -(-nbytes // 256) * 256
        if self._used > self._SCRATCH:
            raise MemoryError("more than {} bytes of scratch memory".format(self._SCRATCH))
        return pointer

    def empty(self, nbytes):
        """A pointer to memory, for as long as `free` is not called with it."""
        with self.gpu.active():
            memory = self._driver.mem_alloc(nbytes)
        self._memory[int(memory)] = memory
        return int(memory)

    def free(self, pointer):
        with self.gpu.active():
            self._memory.pop(pointer).free()

    def upload(self, array, pointer=None):
        """Copies an array to the device; returns the pointer."""
        pointer = self.empty(array.nbytes) if pointer is None else pointer
        with self.gpu.active():
            self._driver.memcpy_htod(pointer, array)
        self.synchronize()  # from memory that is not pinned it may be under way still
        return pointer

    def copy(self, target, source, nbytes):
        """Enqueues a copy within the device."""
        with self.gpu.active():
            self.gpu.copy(target, source, nbytes)

    def timed(self, function):
        """ms that the device takes for what `function` enqueues on our stream, by one pair of events."""
        driver, stream = self._driver, self.gpu._stream
        with self.gpu.active():
            start, end = driver.Event(), driver.Event()
            start.record(stream)
            function()
            end.record(stream)
            end.synchronize()
            return start.time_till(end)

    def event_overhead(self):
        """ms that events show for the least there is to launch: what each event-timed launch has too much, at most."""
        target, plug = self.empty(256), self.empty(1 << 30)
        gpu = self.gpu
        try:
            with gpu.active():
                for _ in range(8):
                    gpu.clear(plug, 1 << 30)
                gpu.profile = []
                for _ in range(20):  # all of them are in the queue before the first of them runs
                    gpu.clear(target, 4)
                gpu.synchronize()
                times = [start.time_till(end) for _, start, end in gpu.profile]
                gpu.profile = None
                return float(np.median(times))
        finally:
            gpu.profile = None
            self.free(target)
            self.free(plug)

    def used_bytes(self):
        """Memory of the GPU that is in use, by whomever."""
        with self.gpu.active():
            free, there = self._driver.mem_get_info()
        return there - free

    def describe(self):
        """Name, driver, versions."""
        gpu = self.gpu
        found = {"name": gpu.name, "architecture": gpu.architecture, "multiprocessors": gpu.multiprocessors,
                 "CUDA of the driver": ".".join(map(str, divmod(self._driver.get_driver_version() // 10, 100))),
                 "nvcc": _nvcc_version(), "NCCL": _nccl_version(), "CUDA device order": gpu.ordinal}
        with gpu.active():
            found["memory GiB"] = round(self._driver.mem_get_info()[1] / 2 ** 30, 1)
        return dict(found, **_nvidia_smi())


class HostDevice:
    """The host, where kernels are its build of them: to try the benchmarks, not to measure."""

    tensorflow_name = "/cpu:0"
    gpu = None

    def __init__(self):
        self._arrays = {}

    def synchronize(self):
        """Nothing is ever under way."""

    @contextlib.contextmanager
    def use(self):
        """Kernels called inside run here."""
        with backend.use(None):
            yield

    def empty(self, nbytes):
        """A pointer to memory."""
        array = np.full(nbytes, 0xa5, np.uint8)
        self._arrays[array.ctypes.data] = array
        return array.ctypes.data

    def free(self, pointer):
        del self._arrays[pointer]

    def upload(self, array, pointer=None):
        """Copies an array; returns the pointer."""
        pointer = self.empty(array.nbytes) if pointer is None else pointer
        ctypes.memmove(pointer, array.ctypes.data, array.nbytes)
        return pointer

    def copy(self, target, source, nbytes):
        ctypes.memmove(target, source, nbytes)

    def timed(self, function):
        """ms of a call."""
        began = time.perf_counter()
        function()
        return (time.perf_counter() - began) * 1e3

    def event_overhead(self):
        """No events."""
        return 0.0

    def used_bytes(self):
        """Not known."""
        return 0

    def describe(self):
        """That this is no GPU."""
        return {"name": "none: the host stands in, figures mean nothing"}


def array(device, dtype, *shape):
    """An `Array` in new memory of a device."""
    made = arrays.array(0, dtype, shape, device.gpu)
    return made._replace(pointer=device.empty(made.nbytes))


def uploaded(device, values):
    """An `Array` with a NumPy array's values."""
    made = array(device, values.dtype.name, *values.shape)
    device.upload(values, made.pointer)
    return made


def copy_bandwidth(device, nbytes, repeats=10):
    """Bytes read and written in a second by a copy of `nbytes` within the device: the yardstick of all floors."""
    source, target = device.empty(nbytes), device.empty(nbytes)
    try:
        with device.use():
            times = [device.timed(lambda: device.copy(target, source, nbytes)) for _ in range(repeats + 1)][1:]
    finally:
        device.free(source)
        device.free(target)
    return {"bytes copied": nbytes, "ms": round(float(np.median(times)), 4), "repeats": repeats,
            "bytes/s": 2 * nbytes / (float(np.median(times)) / 1e3)}


def _nvidia_smi():
    fields = ("driver_version", "clocks.max.sm", "clocks.max.memory", "power.limit")
    try:
        text = subprocess.check_output(["nvidia-smi", "-i", os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0],
                                        "--query-gpu=" + ",".join(fields), "--format=csv,noheader"],
                                       universal_newlines=True, stderr=subprocess.DEVNULL)
        return dict(zip(fields, (part.strip() for part in text.strip().split("\n")[0].split(","))))
    except (OSError, subprocess.CalledProcessError):
        return {}


def _nvcc_version():
    try:
        text = subprocess.check_output(["nvcc", "--version"], universal_newlines=True, stderr=subprocess.DEVNULL)
    except (OSError, subprocess.CalledProcessError):
        return None
    found = re.search(r"V([\d.]+)", text)
    return found.group(1) if found else None


def _nccl_version():
    from sok1x.launch import LaunchError, nccl_library
    try:
        return nccl_library.load().version
    except LaunchError:
        return None

"""Where the kernel tests run: on the host, or on a GPU, where their arrays are copied to and fro.

A test says nothing of devices: it has the fixture `device`, and calls wrappers by `call`, with NumPy arrays where the
wrapper takes `Array`s.
"""
import contextlib
import os

import numpy as np
import pytest

from sok1x.cuda_kernels import backend, gpu, host
from sok1x.cuda_kernels.arrays import Array, of_numpy

THREADS = (1, 2, 4)
# Small arrays, few rounds: for compute-sanitizer, under which kernels are many times slower.
SMALL = os.environ.get("SOK1X_TEST_SMALL", "").strip() not in ("", "0")

# The bytes of memory that nobody has written: large floats (a sum begun there is seen), and places that are far off.
NONSENSE = 0x7f

# For a test that has no host form. The test, or its file, also needs the fixture `device`.
gpu_only = pytest.mark.parametrize("device", [pytest.param("gpu", marks=pytest.mark.gpu)], indirect=True)
host_only = pytest.mark.parametrize("device", ["host"], indirect=True)

_memories = {}  # a Gpu's GpuMemory
_memory = None  # that of the GPU that `call` runs on, or None for the host


def size(n):
    """n, or with SOK1X_TEST_SMALL=1 at most about 20 k, as far from a tile's border as n."""
    return n if not SMALL or n <= 20480 else 18432 + n % 2048


def rounds(n):
    """n, or fewer with SOK1X_TEST_SMALL=1."""
    return n if not SMALL else min(n, 10)


@contextlib.contextmanager
def on(name):
    """Inside, `call` runs on the 'host', or on the 'gpu' with the lowest number."""
    global _memory
    before = _memory
    _memory = None if name == "host" else memory_of(gpu.get(0))
    try:
        yield
    finally:
        _memory = before


def on_gpu():
    """Whether `call` runs on a GPU."""
    return _memory is not None


def memory():
    """The memory of the GPU that `call` runs on."""
    return _memory


def memory_of(device):
    """The memory of a Gpu."""
    if device not in _memories:
        _memories[device] = GpuMemory(device)
    return _memories[device]


def free_memory():
    for memory in _memories.values():
        memory.free()


@contextlib.contextmanager
def threads(count):
    before = host.get_threads()
    host.set_threads(count)
    try:
        assert host.get_threads() == count
        yield
    finally:
        host.set_threads(before)


@contextlib.contextmanager
def deterministic(yes=True):
    """Inside, the GPU's sums are in a fixed order, or are not."""
    device = _memory.gpu
    before, device.deterministic = device.deterministic, yes
    try:
        yield
    finally:
        device.deterministic = before


def same_bits(run):
    """Runs `run` at each thread count, on a GPU twice; checks that all have the same bits, and returns the first."""
    first = None
    for count in (THREADS if _memory is None else ("first", "second")):
        with threads(count) if _memory is None else contextlib.nullcontext():
            results = run()
        results = results if isinstance(results, tuple) else (results,)
        if first is None:
            first = results
        for expected, got in zip(first, results):
            assert np.asarray(expected).tobytes() == np.asarray(got).tobytes(), "{} threads or run".format(count)
    return first if len(first) > 1 else first[0]


def call(wrapper, *args):
    """Calls a wrapper on the current device.

    Args:
        wrapper: a function of cuda_kernels.
        *args: what it takes, but a NumPy array where it takes an `Array`, also within lists and named tuples. What has
            an `array` is in the device's memory already. On a GPU all NumPy arrays are copied there, and back when it
            has run; those that are views of one array keep their places in it.

    Returns:
        What the wrapper returns.
    """
    if _memory is None:
        with backend.use(None):
            return wrapper(*_arrays(args, of_numpy))
    return _memory.call(wrapper, args)


def _arrays(args, array_of):
    """Arguments with `Array`s for NumPy's arrays, and Python's numbers for NumPy's, which PyCUDA does not take."""
    return [_array(arg, array_of) for arg in args]


def _array(arg, array_of):
    if isinstance(arg, np.ndarray):
        return array_of(arg)
    if isinstance(arg, np.generic):
        return arg.item()
    if isinstance(arg, Array):
        return arg
    if isinstance(arg, tuple) and hasattr(arg, "_fields"):
        return type(arg)(*_arrays(arg, array_of))
    if isinstance(arg, (list, tuple)):
        return _arrays(arg, array_of)
    return getattr(arg, "array", arg)


class GpuMemory:
    """The memory of a GPU that tests use: copies of their arrays, and wrappers' scratch.

    Every piece has the very size that was asked for, so that compute-sanitizer sees an access behind its end, and is
    full of nonsense. Small ones are kept for those who ask for the same size next: to allocate takes longer than
    the kernels of most tests.
    """

    KEPT, KEPT_IN_ALL = 1 << 22, 1 << 30

    def __init__(self, device):
        import pycuda.driver
        self.gpu, self.driver = device, pycuda.driver
        self._waiting, self._waiting_bytes, self._used = {}, 0, []

    def call(self, wrapper, args):
        """See the function `call`."""
        device, copies, failed = self.gpu, {}, True
        with device.active(), backend.use(device):
            allocate_before, device.allocate = device.allocate, self.allocate
            try:
                result = wrapper(*_arrays(args, lambda array: self._copied(array, copies)))
                failed = False
                return result
            finally:
                if failed:
                    device.counts.forget()
                for whole, pointer in copies.values():
                    if whole.flags.writeable:
                        device.to_host(whole.ctypes.data, pointer, whole.nbytes)
                device.synchronize()
                device.allocate = allocate_before
                self.release()

    def _copied(self, array, copies):
        """An `Array`: the place of a NumPy array in the copy of the array that it is a view of."""
        start = of_numpy(array).pointer
        whole = array
        while isinstance(whole.base, np.ndarray):
            whole = whole.base
        key = whole.ctypes.data
        if key not in copies or not whole.nbytes:
            assert whole.flags.c_contiguous or whole.flags.f_contiguous
            copies[key] = whole, self.allocate(whole.nbytes)
            self.gpu.to_device(copies[key][1], whole.ctypes.data, whole.nbytes)
        return of_numpy(array)._replace(pointer=copies[key][1] + start - key, gpu=self.gpu, owner=None)

    def allocate(self, nbytes):
        """A pointer to device memory that is valid until `release`."""
        waiting = self._waiting.get(nbytes)
        if waiting:
            memory = waiting.pop()
            self._waiting_bytes -= nbytes
        else:
            memory = self.driver.mem_alloc(max(1, nbytes))
        self._used.append((nbytes, memory))
        self.gpu.clear(int(memory), nbytes, NONSENSE)
        return int(memory)

    def release(self):
        """All that was allocated is free again; the stream must have come by."""
        for nbytes, memory in self._used:
            if nbytes <= self.KEPT and self._waiting_bytes + nbytes <= self.KEPT_IN_ALL:
                self._waiting.setdefault(nbytes, []).append(memory)
                self._waiting_bytes += nbytes
            else:
                memory.free()
        self._used = []

    def free(self):
        """Nothing is kept any more."""
        with self.gpu.active():
            self.gpu.synchronize()
            self.release()
            for waiting in self._waiting.values():
                for memory in waiting:
                    memory.free()
        self._waiting, self._waiting_bytes = {}, 0

"""One GPU as this process uses it: TensorFlow's own context, a stream of ours, the kernels loaded there.

PyCUDA is imported here and nowhere else above `Gpu.__init__`, so that everything works without it on the host. It makes
contexts, streams and pinned memory; what a step does again and again goes to the driver itself (gpu_driver.py). All
work goes to one stream, in order; nothing here waits for it except `synchronize`, `to_host` and `counts.read`.
"""
import contextlib
import ctypes
import os
import sys

import numpy as np

from . import counts, gpu_compiler, gpu_driver, gpu_launch, gpu_side

_NON_BLOCKING = 1  # a stream that does not wait for the legacy default stream
_BLOCKS_PER_MULTIPROCESSOR = 32

_gpus = {}
_NOTHING = contextlib.nullcontext()

# As in requirements-gpu.txt
_PYCUDA = "pycuda==2022.1" if sys.version_info < (3, 9) else "pycuda==2026.1"


class GpuMissing(RuntimeError):
    """A GPU was asked for, and there is none that PyCUDA can use."""


def _driver():
    try:
        import pycuda.driver as driver
        driver.init()
    except Exception as error:  # PyCUDA is missing, or finds no driver: many classes
        raise GpuMissing(
            "sok1x runs its GPU kernels through PyCUDA, which does not work here ({}: {}). Install {} and "
            "NVIDIA's driver, or place the tables on the CPU with tf.device('/cpu:0').".format(
                type(error).__name__, error, _PYCUDA)) from error
    return driver


def count():
    """Number of GPUs that PyCUDA can use, 0 without PyCUDA or a driver."""
    try:
        return _driver().Device.count()
    except GpuMissing:
        return 0


def get(ordinal):
    """The process's `Gpu` of a CUDA ordinal, made at its first use.

    It is never destroyed: its stream and modules must outlive TensorFlow's threads, which end after Python.
    """
    if ordinal not in _gpus:
        made = Gpu(ordinal)
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(made))
        _gpus[ordinal] = made
    return _gpus[ordinal]


def of_stream(stream):
    """The `Gpu` on which a CUDA stream lives.

    TensorFlow's '/gpu:0' may be any CUDA ordinal (visible_device_list renumbers them), so the stream is asked.

    Args:
        stream: a CUstream as an int.
    """
    cuda = gpu_driver.get()
    context, ordinal = ctypes.c_void_p(), ctypes.c_int()
    _check(cuda.cuStreamGetCtx(stream, ctypes.byref(context)), "cuStreamGetCtx")
    _check(cuda.cuCtxSetCurrent(context), "cuCtxSetCurrent")
    _check(cuda.cuCtxGetDevice(ctypes.byref(ordinal)), "cuCtxGetDevice")
    return get(ordinal.value)


class Gpu:
    """A GPU. Use `get`.

    Attributes:
        ordinal: CUDA's number of the device in this process.
        uuid: str, equal in all processes that see the same device.
        architecture: as nvcc names it, 'sm_90'.
        context: CUDA's, as an int.
        stream: the CUstream of all our work, an int.
        event: a CUevent that the bridge orders streams with, an int.
        counts: its `counts.GpuCounts`.
        deterministic: sums run in a fixed order (SOK1X_DETERMINISTIC=1).
        allocate: function from bytes to a device pointer that stays valid until the current request ends.
        profile: None, or a list that gets (kernel, start event, end event) for every launch.
        driver: CUDA's, a `gpu_driver.Driver`.
    """

    def __init__(self, ordinal):
        self._driver = driver = _driver()
        device = driver.Device(ordinal)
        self.ordinal = ordinal
        self.name = device.name()
        self.uuid = _uuid(ordinal)
        self.architecture = "sm_{}{}".format(*device.compute_capability())
        self.multiprocessors = device.get_attribute(driver.device_attribute.MULTIPROCESSOR_COUNT)
        self.deterministic = os.environ.get("SOK1X_DETERMINISTIC", "").strip() not in ("", "0")
        self.allocate = None
        self.profile = None
        cubins = gpu_compiler.cubins(gpu_compiler.names(), self.architecture)
        self._side = None
        self.driver = self._cuda = cuda = gpu_driver.get()
        self._check = cuda.check
        self._context = device.retain_primary_context()
        self.context = cuda.made("cuDevicePrimaryCtxRetain", ordinal)
        self._activity = _Activity(self)
        with self.active():
            self._stream = driver.Stream(_NON_BLOCKING)
            self.stream = self._stream.handle
            self.event = cuda.event()
            self._launcher = gpu_launch.Launcher(
                cubins, self.stream, self.multiprocessors * _BLOCKS_PER_MULTIPROCESSOR)
            self.counts = counts.GpuCounts(self, self._launcher)

    def side(self):
        """Its `SideStream`, made at the first use."""
        if self._side is None:
            self._side = gpu_side.SideStream(self, self._launcher)
        return self._side

    def active(self):
        """This GPU's context is the thread's current one inside, for CUDA and for PyCUDA.

        It stays CUDA's current one afterwards: TensorFlow 1.15 remembers for each thread which context it has set, and
        does not set it again where others have put it away meanwhile. PyCUDA's own stack of contexts must be empty
        when a thread ends, or it aborts the process.
        """
        return self._activity

    def launch(self, signature, arguments, launcher=None):
        """Launches a kernel with the GPU threads that its signature asks for; returns at once.

        Args:
            launcher: of another stream. While a profile is taken all is done in turn, in the GPU's own.
        """
        if signature.threads is None:
            raise NotImplementedError("kernel {} has no GPU form".format(signature.name))
        threads = int(signature.threads(arguments))
        if threads <= 0:
            return
        if self.profile is None:
            (launcher or self._launcher).launch(signature, threads, arguments)
            return
        with self.timed(signature.name):
            self._launcher.launch(signature, threads, arguments)

    def kernel(self, signature):
        """A kernel's GpuKernel (gpu_kernel.h), an address: for C++ that launches it."""
        return self._launcher.kernel(signature)

    def timed(self, what):
        """While a profile is taken: what is enqueued inside is timed by events, under the name `what`."""
        return _NOTHING if self.profile is None else self._timed(what, self.profile)

    @contextlib.contextmanager
    def _timed(self, what, profile):
        start, end = self._driver.Event(), self._driver.Event()
        start.record(self._stream)
        yield
        end.record(self._stream)
        profile.append((what, start, end))

    def _enqueue(self, what, function, *arguments):
        if self.profile is None:
            self._check(function(*arguments, self.stream), what)
        else:
            with self.timed(what):
                self._check(function(*arguments, self.stream), what)

    # Sizes and addresses may be NumPy's integers, which ctypes does not take.

    def clear(self, pointer, nbytes, value=0):
        """Sets bytes of device memory, in stream order."""
        if nbytes:
            self._enqueue("clear", self._cuda.cuMemsetD8Async, int(pointer), value, int(nbytes))

    def fill(self, pointer, count, word):
        """Sets `count` words of 4 bytes of device memory, in stream order; word: an unsigned number."""
        if count:
            self._enqueue("fill", self._cuda.cuMemsetD32Async, int(pointer), word, int(count))

    def copy(self, target, source, nbytes):
        """Copies bytes of device memory, in stream order."""
        if nbytes:
            self._enqueue("copy", self._cuda.cuMemcpyDtoDAsync_v2, int(target), int(source), int(nbytes))

    def to_host(self, target, source, nbytes):
        """Copies device memory at `source` to host memory at `target` (pointers); returns when the bytes are there."""
        if nbytes:
            self._check(self._cuda.cuMemcpyDtoHAsync_v2(int(target), int(source), int(nbytes), self.stream),
                        "copy to the host")
        self.synchronize()

    def to_device(self, target, source, nbytes):
        """Copies host memory at `source` to device memory at `target` (pointers), in stream order.

        Pinned memory must stay as it is until the stream has come by; other memory may change at once.
        """
        if nbytes:
            self._check(self._cuda.cuMemcpyHtoDAsync_v2(int(target), int(source), int(nbytes), self.stream),
                        "copy to the device")

    def send(self, target, pinned):
        """As `to_device`, from a contiguous NumPy array of `pinned` memory."""
        self._driver.memcpy_htod_async(target, pinned, self._stream)

    def pinned(self, nbytes):
        """A NumPy uint8 array [nbytes] in host memory that the GPU copies from and to at full speed."""
        return self._driver.pagelocked_empty(max(1, nbytes), np.uint8)

    def mapped(self, count):
        """(zeros int64 [count] in host memory that kernels can write to, the pointer by which they do)."""
        memory = self._driver.pagelocked_zeros(count, np.int64, mem_flags=self._driver.host_alloc_flags.DEVICEMAP)
        return memory, int(memory.base.get_device_pointer())

    def synchronize(self):
        """Waits until all work of the stream is done."""
        self._check(self._cuda.cuStreamSynchronize(self.stream), "cuStreamSynchronize")

    def record(self):
        """A token for this point of the stream."""
        token = self._driver.Event(self._driver.event_flags.DISABLE_TIMING)
        token.record(self._stream)
        return token

    @staticmethod
    def reached(token):
        """Whether the stream has come to where `record` gave the token. Any thread may ask."""
        return token.query()


class _Activity:
    """See `Gpu.active`. It has no state of its own: entered inside itself too."""

    def __init__(self, gpu):
        self._gpu = gpu

    def __enter__(self):
        gpu = self._gpu
        _check(gpu._cuda.cuCtxSetCurrent(gpu.context), "cuCtxSetCurrent")
        gpu._context.push()
        return gpu

    def __exit__(self, *_):
        self._gpu._context.pop()


def _check(code, what):
    if code:
        raise GpuMissing("CUDA's driver: {} failed with error {}".format(what, code))


def _uuid(ordinal):
    device, text = ctypes.c_int(), ctypes.create_string_buffer(16)
    _check(gpu_driver.get().cuDeviceGet(ctypes.byref(device), ordinal), "cuDeviceGet")
    _check(gpu_driver.get().cuDeviceGetUuid(text, device), "cuDeviceGetUuid")
    return text.raw.hex()

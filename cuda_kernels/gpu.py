"""One GPU as this process uses it: TensorFlow's own context, a stream of ours, the kernels loaded there.

PyCUDA is imported here and nowhere else above `Gpu.__init__`, so that everything works without it on the host. All
work goes to one stream, in order; nothing here waits for it except `synchronize`, `to_host` and `GpuCounts.read`.
"""
import contextlib
import ctypes
import functools
import os

import numpy as np

from . import backend, gpu_compiler

_NON_BLOCKING = 1  # a stream that does not wait for the legacy default stream
_BLOCKS_PER_MULTIPROCESSOR = 32

_gpus = {}


class GpuMissing(RuntimeError):
    """A GPU was asked for, and there is none that PyCUDA can use."""


def _driver():
    try:
        import pycuda.driver as driver
        driver.init()
    except Exception as error:  # PyCUDA is missing, or finds no driver: many classes
        raise GpuMissing(
            "sok1x runs its GPU kernels through PyCUDA, which does not work here ({}: {}). Install pycuda==2022.1 and "
            "NVIDIA's driver, or place the tables on the CPU with tf.device('/cpu:0').".format(
                type(error).__name__, error)) from error
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
    cuda = _cuda()
    context, ordinal = ctypes.c_void_p(), ctypes.c_int()
    _check(cuda.cuStreamGetCtx(ctypes.c_void_p(stream), ctypes.byref(context)), "cuStreamGetCtx")
    _check(cuda.cuCtxSetCurrent(context), "cuCtxSetCurrent")
    _check(cuda.cuCtxGetDevice(ctypes.byref(ordinal)), "cuCtxGetDevice")
    return get(ordinal.value)


class Gpu:
    """A GPU. Use `get`.

    Attributes:
        ordinal: CUDA's number of the device in this process.
        uuid: str, equal in all processes that see the same device.
        architecture: as nvcc names it, 'sm_90'.
        stream: the CUstream of all our work, an int.
        event: a CUevent that the bridge orders streams with, an int.
        counts: its `GpuCounts`.
        deterministic: sums run in a fixed order (SOK1X_DETERMINISTIC=1).
        allocate: function from bytes to a device pointer that stays valid until the current request ends.
        profile: None, or a list that gets (kernel, start event, end event) for every launch.
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
        self._most_blocks = self.multiprocessors * _BLOCKS_PER_MULTIPROCESSOR
        self._cubins = gpu_compiler.cubins(gpu_compiler.names(), self.architecture)
        self._modules = {}
        self._functions = {}
        self._context = device.retain_primary_context()
        self._raw_context = ctypes.c_void_p()
        _check(_cuda().cuDevicePrimaryCtxRetain(ctypes.byref(self._raw_context), ordinal), "cuDevicePrimaryCtxRetain")
        with self.active():
            self._stream = driver.Stream(_NON_BLOCKING)
            self.event = _event_without_timing()
            self.counts = GpuCounts(self)
        self.stream = self._stream.handle

    @contextlib.contextmanager
    def active(self):
        """This GPU's context is the thread's current one inside, for CUDA and for PyCUDA.

        It stays CUDA's current one afterwards: TensorFlow 1.15 remembers for each thread which context it has set, and
        does not set it again where others have put it away meanwhile. PyCUDA's own stack of contexts must be empty
        when a thread ends, or it aborts the process.
        """
        _check(_cuda().cuCtxSetCurrent(self._raw_context), "cuCtxSetCurrent")
        self._context.push()
        try:
            yield self
        finally:
            self._context.pop()

    def launch(self, signature, arguments):
        """Launches a kernel with the GPU threads that its signature asks for; returns at once."""
        if signature.threads is None:
            raise NotImplementedError("kernel {} has no GPU form".format(signature.name))
        wanted = int(signature.threads(arguments))  # PyCUDA takes no integers of NumPy's
        if wanted <= 0:
            return
        blocks = (wanted + signature.block - 1) // signature.block
        if not signature.exact and blocks > self._most_blocks:
            blocks = self._most_blocks
        function = self._functions.get(signature.name)
        if function is None:
            function = self._load(signature)
        if self.profile is None:
            function.prepared_async_call((blocks, 1), (signature.block, 1, 1), self._stream, *arguments)
            return
        with self.timed(signature.name):
            function.prepared_async_call((blocks, 1), (signature.block, 1, 1), self._stream, *arguments)

    @contextlib.contextmanager
    def timed(self, what):
        """While a profile is taken: what is enqueued inside is timed by events, under the name `what`."""
        if self.profile is None:
            yield
            return
        start, end = self._driver.Event(), self._driver.Event()
        start.record(self._stream)
        yield
        end.record(self._stream)
        self.profile.append((what, start, end))

    def _load(self, signature):
        function = self.module(signature.family).get_function("sok1x_" + signature.name)
        function.prepare(signature.format)
        self._functions[signature.name] = function
        return function

    def module(self, family):
        """The loaded module of NAME.cu."""
        if family not in self._modules:
            self._modules[family] = self._driver.module_from_buffer(self._cubins[family])
        return self._modules[family]

    def clear(self, pointer, nbytes, value=0):
        """Sets bytes of device memory, in stream order."""
        if nbytes:
            with self.timed("clear"):
                self._driver.memset_d8_async(int(pointer), value, int(nbytes), self._stream)

    def copy(self, target, source, nbytes):
        """Copies bytes of device memory, in stream order."""
        if nbytes:
            with self.timed("copy"):
                self._driver.memcpy_dtod_async(int(target), int(source), int(nbytes), self._stream)

    def to_host(self, target, source, nbytes):
        """Copies device memory at `source` to host memory at `target` (pointers); returns when the bytes are there."""
        if nbytes:
            self._driver.memcpy_dtoh_async(_bytes_at(target, nbytes), source, self._stream)
        self._stream.synchronize()

    def to_device(self, target, source, nbytes):
        """Copies host memory at `source` to device memory at `target` (pointers), in stream order.

        Pinned memory must stay as it is until the stream has come by; other memory may change at once.
        """
        if nbytes:
            self._driver.memcpy_htod_async(target, _bytes_at(source, nbytes), self._stream)

    def pinned(self, nbytes):
        """A NumPy uint8 array [nbytes] in host memory that the GPU copies from and to at full speed."""
        return self._driver.pagelocked_empty(max(1, nbytes), np.uint8)

    def synchronize(self):
        """Waits until all work of the stream is done."""
        self._stream.synchronize()

    def record(self):
        """A token for this point of the stream."""
        token = self._driver.Event(self._driver.event_flags.DISABLE_TIMING)
        token.record(self._stream)
        return token

    @staticmethod
    def reached(token):
        """Whether the stream has come to where `record` gave the token. Any thread may ask."""
        return token.query()


class GpuCounts:
    """Numbers that kernels leave for Python: int64 counters on the GPU, and the few bytes that are copied of them."""

    _PLACES = 16  # as in counts.cu

    def __init__(self, gpu):
        self._gpu = gpu
        driver = gpu._driver
        self._address, _ = gpu.module("counts").get_global("sok1x_counts")
        self._values = driver.pagelocked_zeros(self._PLACES, np.int64, mem_flags=driver.host_alloc_flags.DEVICEMAP)
        self._seen_by_gpu = int(self._values.base.get_device_pointer())
        self._asked = driver.Event(driver.event_flags.DISABLE_TIMING)
        self._taken, self._waiting = 0, False

    def take(self):
        """A pointer to an int64 that is 0, for a kernel to count in."""
        assert not self._waiting, "counts that have been asked for must be read first"
        place = self._taken
        self._taken += 1
        return self._address + 8 * place

    def ask(self):
        """Counting is over: has the counts sent while the stream goes on with what is enqueued later."""
        backend.kernels.publish_counts(self._seen_by_gpu)
        self._asked.record(self._gpu._stream)
        self._waiting = True

    def read(self):
        """The counts taken since the last read, in order. Waits for the stream, up to `ask` if that was called."""
        if not self._waiting:
            self.ask()
        self._asked.synchronize()
        taken, self._taken, self._waiting = self._taken, 0, False
        return self._values[:taken].tolist()

    def forget(self):
        """After a request that failed half-way: all counters are 0 again."""
        if self._taken or self._waiting:
            self.read()


def _bytes_at(pointer, nbytes):
    return np.frombuffer((ctypes.c_char * nbytes).from_address(pointer), np.uint8)


def _event_without_timing():
    """A CUevent of the current context, as an int: PyCUDA's events do not tell theirs."""
    event = ctypes.c_void_p()
    _check(_cuda().cuEventCreate(ctypes.byref(event), 2), "cuEventCreate")
    return event.value


@functools.lru_cache(maxsize=None)
def _cuda():
    """CUDA's driver, for what PyCUDA does not offer."""
    return ctypes.CDLL("libcuda.so.1")


def _check(code, what):
    if code:
        raise GpuMissing("CUDA's driver: {} failed with error {}".format(what, code))


def _uuid(ordinal):
    device, text = ctypes.c_int(), ctypes.create_string_buffer(16)
    _check(_cuda().cuDeviceGet(ctypes.byref(device), ordinal), "cuDeviceGet")
    _check(_cuda().cuDeviceGetUuid(text, device), "cuDeviceGetUuid")
    return text.raw.hex()


_declare = backend.family("counts")
_declare("publish_counts", None, backend.POINTER, threads=lambda a: 16, block=32)

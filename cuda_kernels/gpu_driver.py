"""CUDA's driver by ctypes, for what PyCUDA does not offer, and for what a step does again and again.

A launch through PyCUDA costs 18 us of Python; these calls cost about one, besides what the driver itself takes.
"""
import ctypes
import functools
from typing import Any

LIBRARY = "libcuda.so.1"

_HANDLE, _DEVICE_POINTER, _HOST_POINTER = ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p
_SIZE, _OUT = ctypes.c_size_t, ctypes.POINTER(ctypes.c_void_p)
_NUMBER_OUT = ctypes.POINTER(ctypes.c_int)

# The functions used, under the names that the driver has them by, with the types of their arguments.
_FUNCTIONS = {
    "cuCtxGetDevice": [_NUMBER_OUT],
    "cuCtxSetCurrent": [_HANDLE],
    "cuDeviceGet": [_NUMBER_OUT, ctypes.c_int],
    "cuDeviceGetUuid": [ctypes.c_char_p, ctypes.c_int],
    "cuDevicePrimaryCtxRetain": [_OUT, ctypes.c_int],
    "cuEventCreate": [_OUT, ctypes.c_uint],
    "cuEventRecord": [_HANDLE, _HANDLE],
    "cuEventSynchronize": [_HANDLE],
    "cuGetErrorString": [ctypes.c_int, ctypes.POINTER(ctypes.c_char_p)],
    "cuLaunchKernel": [_HANDLE] + [ctypes.c_uint] * 7 + [_HANDLE, _OUT, _OUT],
    "cuMemcpyDtoDAsync_v2": [_DEVICE_POINTER, _DEVICE_POINTER, _SIZE, _HANDLE],
    "cuMemcpyDtoHAsync_v2": [_HOST_POINTER, _DEVICE_POINTER, _SIZE, _HANDLE],
    "cuMemcpyHtoDAsync_v2": [_DEVICE_POINTER, _HOST_POINTER, _SIZE, _HANDLE],
    "cuMemsetD32Async": [_DEVICE_POINTER, ctypes.c_uint, _SIZE, _HANDLE],
    "cuMemsetD8Async": [_DEVICE_POINTER, ctypes.c_ubyte, _SIZE, _HANDLE],
    "cuModuleGetFunction": [_OUT, _HANDLE, ctypes.c_char_p],
    "cuModuleGetGlobal_v2": [_OUT, ctypes.POINTER(_SIZE), _HANDLE, ctypes.c_char_p],
    "cuModuleLoadData": [_OUT, ctypes.c_char_p],
    "cuStreamCreate": [_OUT, ctypes.c_uint],
    "cuStreamGetCtx": [_HANDLE, _OUT],
    "cuStreamSynchronize": [_HANDLE],
    "cuStreamWaitEvent": [_HANDLE, _HANDLE, ctypes.c_uint],
}
_EVENT_DISABLE_TIMING = 2


class DriverError(RuntimeError):
    """A call of CUDA's driver failed."""


class Driver:
    """The functions of a library, as attributes. Each returns CUDA's error, 0 for none: see `check`."""

    cuGetErrorString: Any

    def __init__(self, path):
        library = ctypes.CDLL(path)
        for name, arguments in _FUNCTIONS.items():
            function = getattr(library, name)
            function.argtypes, function.restype = arguments, ctypes.c_int
            setattr(self, name, function)

    def check(self, code, what):
        """Raises DriverError where a call that `what` names has returned an error."""
        if code:
            text = ctypes.c_char_p()
            self.cuGetErrorString(code, ctypes.byref(text))
            raise DriverError("{} failed: {} (CUDA's error {})".format(
                what, (text.value or b"unknown error").decode(), code))

    def made(self, name, *arguments):
        """What a function of the driver gives by its first argument: a handle or an address, as an int.

        Raises:
            DriverError: it failed.
        """
        result = ctypes.c_void_p()
        self.check(getattr(self, name)(ctypes.byref(result), *arguments), name)
        return result.value or 0

    def event(self):
        """A new CUevent of the current context that takes no time, an int: PyCUDA's events do not tell theirs."""
        return self.made("cuEventCreate", _EVENT_DISABLE_TIMING)


@functools.lru_cache(maxsize=None)
def get():
    """The process's `Driver`.

    Raises:
        OSError: there is no driver.
    """
    return Driver(LIBRARY)

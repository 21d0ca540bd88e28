"""A GPU's place in the launch tests: host memory, and a stream of the stand-in for NCCL (stand_in_stream.h)."""
import contextlib
import ctypes

import numpy as np


class StandInGpu:
    """What connect_gpu and the communicators use of cuda_kernels.gpu.Gpu. Copies are as asynchronous as CUDA's."""

    def __init__(self, path, uuid):
        library = self._library = ctypes.CDLL(path)
        library.stand_in_stream.restype = ctypes.c_void_p
        library.stand_in_record.argtypes, library.stand_in_record.restype = (ctypes.c_void_p,), ctypes.c_int64
        library.stand_in_reached.argtypes = library.stand_in_wait.argtypes = ctypes.c_void_p, ctypes.c_int64
        library.stand_in_copy.argtypes = (ctypes.c_void_p,) * 3 + (ctypes.c_size_t,)
        library.stand_in_sleep.argtypes = ctypes.c_void_p, ctypes.c_int
        self.uuid = uuid
        self.stream = library.stand_in_stream()
        self._pinned = []

    active = staticmethod(contextlib.nullcontext)
    timed = staticmethod(contextlib.nullcontext)

    def copy(self, target, source, nbytes):
        self._library.stand_in_copy(self.stream, target, source, nbytes)

    def to_host(self, target, source, nbytes):
        self.copy(target, source, nbytes)
        self.synchronize()

    def to_device(self, target, source, nbytes):
        self.copy(target, source, nbytes)
        if not any(begin <= source < end for begin, end in self._pinned):
            self.synchronize()

    def pinned(self, nbytes):
        made = np.empty(nbytes, np.uint8)
        self._pinned.append((made.ctypes.data, made.ctypes.data + nbytes))
        return made

    def synchronize(self):
        self._library.stand_in_wait(self.stream, self.record())

    def record(self):
        return self._library.stand_in_record(self.stream)

    def reached(self, mark):
        return bool(self._library.stand_in_reached(self.stream, mark))

    def sleep(self, milliseconds):
        """Has the stream stand still for a while."""
        self._library.stand_in_sleep(self.stream, milliseconds)

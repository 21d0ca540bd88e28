"""A GPU in host memory: `gpu.Gpu` over a stand-in for CUDA's driver (stand_in_cuda.cc) and one for PyCUDA."""
import contextlib
import ctypes
import os
import subprocess
import types

import numpy as np

from sok1x.cuda_kernels import gpu, gpu_compiler, gpu_driver

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "stand_in_cuda.cc")
STREAM = 4711
MULTIPROCESSORS = 2


def build(folder):
    """Compiles the driver's stand-in; returns its path."""
    path = os.path.join(str(folder), "libstand_in_cuda.so")
    subprocess.check_call(["g++", "-O1", "-std=c++14", "-fPIC", "-shared", SOURCE, "-o", path])
    return path


class _Memory(np.ndarray):
    @property
    def base(self):
        return types.SimpleNamespace(get_device_pointer=lambda: self.ctypes.data)


class _Event:
    def __init__(self):
        self.recorded = []

    def record(self, stream):
        self.recorded.append(stream.handle)


class _PyCuda:
    """What gpu.Gpu uses of pycuda.driver."""

    device_attribute = types.SimpleNamespace(MULTIPROCESSOR_COUNT="multiprocessors")
    host_alloc_flags = types.SimpleNamespace(DEVICEMAP=2)
    Event = _Event

    @staticmethod
    def Device(ordinal):
        context = types.SimpleNamespace(push=lambda: None, pop=lambda: None)
        return types.SimpleNamespace(
            name=lambda: "stand-in", compute_capability=lambda: (9, 0), retain_primary_context=lambda: context,
            get_attribute=lambda name: MULTIPROCESSORS)

    @staticmethod
    def Stream(flags):
        return types.SimpleNamespace(handle=STREAM)

    @staticmethod
    def pagelocked_zeros(shape, dtype, mem_flags):
        return np.zeros(shape, dtype).view(_Memory)


@contextlib.contextmanager
def installed(path, monkeypatch):
    """Gives (a `Gpu`, the stand-in's library for looking at what was launched)."""
    driver = gpu_driver.Driver(path)
    monkeypatch.setattr(gpu_driver, "get", lambda: driver)
    monkeypatch.setattr(gpu, "_driver", lambda: _PyCuda)
    monkeypatch.setattr(gpu_compiler, "names", lambda: ["counts", "echo"])
    monkeypatch.setattr(gpu_compiler, "cubins", lambda names, _: {name: name.encode() for name in names})
    looks = ctypes.CDLL(path)
    for name in ("calls", "blocks", "block", "size"):
        getattr(looks, "stand_in_" + name).restype = ctypes.c_int64
    looks.stand_in_kernel.restype = ctypes.c_char_p
    looks.stand_in_stream.restype = looks.stand_in_parameters.restype = ctypes.c_void_p
    looks.stand_in_counts.restype = ctypes.POINTER(ctypes.c_int64)
    yield gpu.Gpu(0), looks

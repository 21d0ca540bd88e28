"""The memory that the launch tests exchange: the host's, a stand-in GPU's, or a real GPU's (SOK1X_TEST_DEVICE)."""
import contextlib
import ctypes
import os

import numpy as np

from sok1x import launch


class Host:
    """NumPy memory, exchanged by world.communicator."""

    def __init__(self, world):
        self.world = world
        self._kept = []

    def active(self):
        """The device is current on this thread inside."""
        return contextlib.nullcontext()

    def connect(self):
        """The communicator for this device's memory (collective)."""
        return self.world.communicator

    def put(self, array):
        """A pointer to a copy of the array in the device's memory, there until `clear`."""
        self._kept.append(np.array(array, order="C"))
        return self._kept[-1].ctypes.data

    def get(self, pointer, shape, dtype):
        """A NumPy copy of the device's memory; waits for what is under way."""
        out = np.empty(shape, dtype)
        ctypes.memmove(out.ctypes.data, pointer, out.nbytes)
        return out

    def clear(self):
        """Frees what `put` made."""
        self._kept.clear()


class Gpu(Host):
    """Memory of `self.gpu`, exchanged by world.gpu_communicator. Subclasses allocate it."""

    def active(self):
        return self.gpu.active()

    def connect(self):
        launch.connect_gpu(self.world, self.gpu)
        return self.world.gpu_communicator

    def put(self, array):
        array = np.ascontiguousarray(array)
        pointer = self._allocate(max(1, array.nbytes))
        self.gpu.to_device(pointer, array.ctypes.data, array.nbytes)
        return pointer

    def get(self, pointer, shape, dtype):
        out = np.empty(shape, dtype)
        self.gpu.to_host(out.ctypes.data, pointer, out.nbytes)
        return out

    def clear(self):
        self.gpu.synchronize()
        self._kept.clear()


class StandIn(Gpu):
    """A stand-in GPU for each rank; STAND_IN_GPU_SHARED: for each two."""

    def __init__(self, world):
        from stand_in_gpu import StandInGpu
        super().__init__(world)
        number = world.local_rank // 2 if os.environ.get("STAND_IN_GPU_SHARED") else world.local_rank
        self.gpu = StandInGpu(os.environ["STAND_IN_GPU_LIBRARY"], "stand-in GPU {}".format(number))

    def _allocate(self, nbytes):
        self._kept.append(np.empty(nbytes, np.uint8))
        return self._kept[-1].ctypes.data


class Real(Gpu):
    """The GPU with the number of this rank on its host, or fewer shared by all."""

    def __init__(self, world):
        from sok1x.cuda_kernels import gpu
        super().__init__(world)
        self.gpu = gpu.get(world.local_rank % gpu.count())

    def _allocate(self, nbytes):
        import pycuda.driver
        self._kept.append(pycuda.driver.mem_alloc(nbytes))
        return int(self._kept[-1])


def chosen(world):
    """The device that SOK1X_TEST_DEVICE names: 'host' (or unset), 'stand-in' or 'gpu'."""
    return {"": Host, "host": Host, "stand-in": StandIn, "gpu": Real}[os.environ.get("SOK1X_TEST_DEVICE", "")](world)

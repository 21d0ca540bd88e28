"""Launches of kernels on a GPU: modules loaded when first used, parameters packed as CUDA takes them, one call each."""
import ctypes
import struct

from . import gpu_driver, host


class _Kernel(ctypes.Structure):
    """gpu_kernel.h's GpuKernel."""

    _fields_ = [("launch", ctypes.c_void_p), ("function", ctypes.c_void_p), ("stream", ctypes.c_void_p),
                ("block", ctypes.c_int64), ("most_blocks", ctypes.c_int64), ("nbytes", ctypes.c_int64)]


def functions():
    """host_launch.cu's functions, typed: one launches, one gives the size of its struct."""
    # The parameters go as bytes, of which ctypes gives the address.
    return (host.function("gpu_launch", ctypes.c_int32, [ctypes.c_void_p, ctypes.c_int64, ctypes.c_char_p]),
            host.function("gpu_kernel_bytes", ctypes.c_int32, []))


class Launcher:
    """The kernels of one context, launched on one stream. The context must be the thread's current one.

    Args:
        cubins: dict from the names of families to their binaries.
        stream: a CUstream as an int.
        most_blocks: of a launch, where a kernel's signature does not ask for all.
    """

    def __init__(self, cubins, stream, most_blocks):
        self._driver = gpu_driver.get()
        self._cubins, self._stream, self._most_blocks = cubins, stream, most_blocks
        self._modules, self._kernels, self._kept = {}, {}, []
        self._launch, kernel_bytes = functions()
        there = kernel_bytes()
        assert there == ctypes.sizeof(_Kernel), (there, ctypes.sizeof(_Kernel))

    def launch(self, signature, threads, arguments):
        """Launches a kernel; returns at once.

        Args:
            signature: the `backend.Signature`. threads: at least 1. arguments: numbers, as the signature says.

        Raises:
            gpu_driver.DriverError: CUDA refuses, or something before has failed on the GPU.
            struct.error: an argument does not fit its type, or there is one too many or too few.
        """
        kernel = self._kernels.get(signature)
        if kernel is None:
            kernel = self._load(signature)
        at, pack = kernel
        code = self._launch(at, threads, pack(*arguments))
        if code:
            self._driver.check(code, "cuLaunchKernel of {} with {} threads".format(signature.name, threads))

    def beside(self, stream):
        """One for another stream of the context; modules are loaded for both at once.

        Args:
            stream: a CUstream as an int.
        """
        made = Launcher(self._cubins, stream, self._most_blocks)
        made._modules = self._modules
        return made

    def kernel(self, signature):
        """Where the GpuKernel (gpu_kernel.h) of a kernel is, for as long as this lives."""
        return (self._kernels.get(signature) or self._load(signature))[0]

    def global_address(self, family, name):
        """Where a variable of NAME.cu lies in the GPU's memory."""
        return self._driver.made("cuModuleGetGlobal_v2", None, self._module(family), name.encode())

    def _load(self, signature):
        function = self._driver.made("cuModuleGetFunction", self._module(signature.family),
                                     ("sok1x_" + signature.name).encode())
        # Python's struct puts each value at its own alignment, as C and CUDA do, and nothing behind the last.
        packing = struct.Struct(signature.format)
        address = ctypes.cast(self._driver.cuLaunchKernel, ctypes.c_void_p).value
        kernel = _Kernel(address, function, self._stream, signature.block,
                         0 if signature.exact else self._most_blocks, packing.size)
        self._kept.append(kernel)
        self._kernels[signature] = ctypes.addressof(kernel), packing.pack
        return self._kernels[signature]

    def _module(self, family):
        if family not in self._modules:
            self._modules[family] = self._driver.made("cuModuleLoadData", self._cubins[family])
        return self._modules[family]

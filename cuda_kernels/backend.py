"""Which device kernels run on: the host, or a GPU. One set of functions for both.

A wrapper declares its kernels with the types of their arguments, and calls them as attributes of `kernels`. The call
goes to the host's library, or, inside `use(gpu)`, to the GPU as a launch on its stream.
"""
import ctypes
import threading
from typing import Any, Dict, List

from . import host
from .arrays import Array, array

POINTER = ctypes.c_void_p
INT32 = ctypes.c_int32
INT64 = ctypes.c_int64
UINT64 = ctypes.c_uint64
FLOAT = ctypes.c_float
DOUBLE = ctypes.c_double

# Key types, numbered as in common.cuh.
KEY_TYPES = {"int64": 0, "int32": 1, "uint32": 2}


def key_type(keys: Array) -> int:
    """The number of an array's key type.

    Raises:
        TypeError: it has none.
    """
    try:
        return KEY_TYPES[keys.dtype]
    except KeyError:
        raise TypeError("got keys of dtype {}, expected one of {}".format(
            keys.dtype, ", ".join(KEY_TYPES))) from None


# How Python's struct packs an argument for a launch.
_FORMATS = {POINTER: "P", INT32: "i", INT64: "q", UINT64: "Q", FLOAT: "f", DOUBLE: "d"}


class _State(threading.local):
    gpu: Any = None


_state = _State()


def current():
    """The GPU that kernels run on now (a `gpu.Gpu`), or None for the host."""
    return _state.gpu


class use:  # a class, for a generator in its place costs 4 us each time
    """Kernels called inside, on this thread, run on `gpu`; None means the host."""

    __slots__ = ("_gpu", "_before")

    def __init__(self, gpu):
        self._gpu = gpu

    def __enter__(self):
        self._before, _state.gpu = _state.gpu, self._gpu
        return self._gpu

    def __exit__(self, *_):
        _state.gpu = self._before


def counts():
    """The current device's `Counts`: numbers that kernels leave for Python."""
    return _host_counts if _state.gpu is None else _state.gpu.counts


def places(address: int, count: int, gpu: Any = None) -> List[Array]:
    """`count` numbers int64 [] side by side, made once: each lookup takes some."""
    every = array(address, "int64", (count,), gpu)
    return [every.at(place) for place in range(count)]


class HostCounts:
    """Counts in host memory: there as soon as a kernel returns."""

    _PLACES = 16  # as in counts.cu

    def __init__(self):
        self._values = (ctypes.c_int64 * self._PLACES)()
        self._places = places(ctypes.addressof(self._values), self._PLACES)
        self._taken = 0

    def take(self):
        """An `Array` int64 [] that is 0, for a kernel to count in."""
        place = self._taken
        self._taken += 1
        self._values[place] = 0
        return self._places[place]

    def ask(self):
        """Counting is over: see `GpuCounts.ask`."""

    def read(self):
        """The counts taken since the last read, in order."""
        taken, self._taken = self._taken, 0
        return self._values[:taken]

    def forget(self):
        """After a failure: nothing is taken."""
        self._taken = 0


_host_counts = HostCounts()


class Signature:
    """A kernel: its family (the .cu that has it), name, C types, and how many GPU threads a call wants."""

    def __init__(self, family, name, result, arguments, threads, block, exact):
        self.family, self.name, self.result, self.arguments = family, name, result, arguments
        self.threads, self.block, self.exact = threads, block, exact
        self.format = "".join(_FORMATS[kind] for kind in arguments)


_signatures: Dict[str, Signature] = {}


def signature(name):
    """The `Signature` of a kernel; its family's module must have been imported."""
    return _signatures[name]


class Kernels:
    """The kernels as attributes, without their prefix `sok1x_`."""

    def __getattr__(self, name):
        signature = _signatures[name]
        state = _state
        on_host = None

        def call(*arguments):
            nonlocal on_host
            gpu = state.gpu
            if gpu is not None:
                return gpu.launch(signature, arguments)
            if on_host is None:
                on_host = host.function(name, signature.result, signature.arguments)
            return on_host(*arguments)

        setattr(self, name, call)
        return call


kernels = Kernels()


def family(module_name):
    """The `declare` of a wrapper's module: `declare = family(__name__)`."""
    name_of_family = module_name.rsplit(".", 1)[-1]

    def declare(name, result, *arguments, threads=None, block=256, exact=False):
        """States the C types of a kernel.

        Args:
            name: the function's name without the prefix `sok1x_`.
            result: its ctypes result type on the host, or None.
            *arguments: its ctypes argument types.
            threads: function from the tuple of arguments to the number of GPU threads that serve the call; the
                kernel strides over its items, so a launch may have fewer. None: there is no GPU form.
            block: threads of a GPU block.
            exact: the launch has all blocks that `threads` asks for, however many.
        """
        _signatures[name] = Signature(name_of_family, name, result, arguments, threads, block, exact)

    return declare


def row_lanes(dim: int) -> int:
    """GPU threads that serve one row of `dim` floats together, as in rows.cuh (make_team) and
    as in groups.cuh."""
    lanes = 1
    while lanes < 32 and lanes * 4 < dim:
        lanes *= 2
    return lanes

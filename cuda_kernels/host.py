"""The kernels' host build: a shared library, loaded at the first call of one of its functions."""
import ctypes
import os

POINTER = ctypes.c_void_p
INT32 = ctypes.c_int32
INT64 = ctypes.c_int64
UINT64 = ctypes.c_uint64
FLOAT = ctypes.c_float

LIBRARY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_host_kernels.so")

# Numbers of the key types in common.cuh.
KEY_TYPES = {"int64": 0, "int32": 1, "uint32": 2}

_signatures = {}


class Kernels(object):
    """The library's functions as attributes, without their prefix `sok1x_`.

    A function is looked up and given its types at its first use, then kept as a plain attribute.
    """

    def __getattr__(self, name):
        result, arguments = _signatures[name]
        function = getattr(_library(), "sok1x_" + name)
        function.restype = result
        function.argtypes = arguments
        setattr(self, name, function)
        return function


kernels = Kernels()


def declare(name, result, *arguments):
    """States the C types of a function of the library; wrappers do so when imported.

    Args:
        name: the function's name without the prefix `sok1x_`.
        result: its ctypes result type, or None.
        *arguments: its ctypes argument types.
    """
    _signatures[name] = (result, arguments)


def _library():
    """The loaded library.

    Raises:
        ImportError: it is not built, or was built from other sources or for another machine.
    """
    global _loaded
    if _loaded is None:
        how = "build it with 'make build' or 'pip install -e . --no-build-isolation' in sok1x's source folder"
        if not os.path.exists(LIBRARY):
            raise ImportError("sok1x's host kernels are not built: {} is missing; {}.".format(LIBRARY, how))
        try:
            _loaded = ctypes.CDLL(LIBRARY)
        except OSError as error:
            raise ImportError("sok1x's host kernels cannot be loaded ({}); {}.".format(error, how))
    return _loaded


_loaded = None

declare("set_threads", None, INT32)
declare("get_threads", INT32)


def set_threads(threads):
    """Sets how many threads, the caller included, a kernel may use; 1 until it is called.

    Args:
        threads: at least 1; more than 256 count as 256.

    Raises:
        ValueError: threads is below 1.
    """
    if threads < 1:
        raise ValueError("The number of kernel threads must be at least 1, got {}.".format(threads))
    kernels.set_threads(min(threads, 256))


def get_threads():
    """The number of threads, the caller included, that a kernel may use."""
    return kernels.get_threads()

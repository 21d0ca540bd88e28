"""The kernels' host build: a shared library, loaded at the first call of one of its functions."""
import ctypes
import os
from typing import Any, Optional, Sequence

MOST_THREADS = 256  # as in host_threads.h

LIBRARY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_host_kernels.so")

_loaded: Optional[ctypes.CDLL] = None


def function(name: str, result: Any, arguments: Sequence[Any]) -> Any:
    """A function of the library, typed.

    Args:
        name: its name without the prefix `sok1x_`.
        result: its ctypes result type, or None.
        arguments: its ctypes argument types.

    Raises:
        ImportError: there is no library that loads.
        AttributeError: the library has no such function: it was built from other sources.
    """
    found = getattr(_library(), "sok1x_" + name)
    found.restype, found.argtypes = result, arguments
    return found


def _library() -> ctypes.CDLL:
    """The loaded library.

    Raises:
        ImportError: it is not built, or does not load on this machine.
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


def set_threads(threads: int) -> None:
    """Sets how many threads, the caller included, a kernel may use; 1 until it is called.

    Args:
        threads: at least 1; more than MOST_THREADS count as so many.

    Raises:
        ValueError: threads is below 1.
    """
    if threads < 1:
        raise ValueError("The number of kernel threads must be at least 1, got {}.".format(threads))
    function("set_threads", None, [ctypes.c_int32])(min(threads, MOST_THREADS))


def get_threads() -> int:
    """The number of threads, the caller included, that a kernel may use."""
    return function("get_threads", ctypes.c_int32, [])()

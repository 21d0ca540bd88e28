"""The kernels' host build: a shared library, loaded at the first call of one of its functions."""
import ctypes
import os
import tempfile
from typing import Any, Optional, Sequence

from sok1x.cuda_kernels import build_host, native

MOST_THREADS = 256  # as in host_threads.h

LIBRARY = native.place(native.HERE, "_host_kernels.so", build_host.sources)

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
        ImportError: it is not built and cannot be, or does not load on this machine.
    """
    global _loaded
    if _loaded is None:
        how = ("build it with 'make build' or 'pip install -e . --no-build-isolation' in sok1x's source folder, "
               "elsewhere with 'python -m sok1x.build --force'")
        try:
            compile_missing(LIBRARY)
        except (RuntimeError, OSError) as error:
            raise ImportError("sok1x's host kernels are not built, and could not be: {}".format(error)) from None
        if not os.path.exists(LIBRARY):
            raise ImportError("sok1x's host kernels are not built: {} is missing; {}.".format(LIBRARY, how))
        try:
            _loaded = ctypes.CDLL(LIBRARY)
        except OSError as error:
            raise ImportError("sok1x's host kernels cannot be loaded ({}); {}.".format(error, how))
    return _loaded


def compile_missing(wanted: str, force: bool = False) -> bool:
    """Compiles the library into `wanted` if it is not there and this is no checkout, or if `force`d.

    Returns:
        Whether it was compiled.

    Raises:
        RuntimeError, OSError: it cannot be; the message says why.
    """
    def make(output: str) -> None:
        with tempfile.TemporaryDirectory(prefix="sok1x_kernels_") as objects:
            build_host.build(output, objects=objects)

    return native.ensure(wanted, "its kernels for the host", make, force)


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

"""Dense tensors on their way through an all-reduce (dense.cu)."""
from .backend import DOUBLE, FLOAT, INT64, POINTER, current, family, kernels

declare = family(__name__)
declare("copy_bytes", None, POINTER, INT64, POINTER)
declare("widen_half", None, POINTER, INT64, POINTER, threads=lambda a: a[1])
declare("narrow_half", None, POINTER, INT64, POINTER, threads=lambda a: a[1])
declare("divide_float", None, POINTER, INT64, FLOAT, threads=lambda a: a[1])
declare("divide_double", None, POINTER, INT64, DOUBLE, threads=lambda a: a[1])


def copy(source: int, nbytes: int, out: int) -> None:
    """Copies `nbytes` bytes from `source` to `out`, pointers to memory that does not overlap."""
    if current() is None:
        kernels.copy_bytes(source, nbytes, out)
    else:
        current().copy(out, source, nbytes)


def widen_half(source: int, n: int, out: int) -> None:
    """float16 [n] at `source` to float32 [n] at `out`; exact."""
    kernels.widen_half(source, n, out)


def narrow_half(source: int, n: int, out: int) -> None:
    """float32 [n] at `source` to float16 [n] at `out`, to the nearest, ties to even."""
    kernels.narrow_half(source, n, out)


def divide(values: int, dtype: str, n: int, by: float) -> None:
    """Divides n values, 'float32' or 'float64', in place."""
    (kernels.divide_float if dtype == "float32" else kernels.divide_double)(values, n, by)

"""Dense tensors on their way through an all-reduce (dense.cu)."""
from .arrays import Array, need
from .backend import DOUBLE, FLOAT, INT64, POINTER, current, family, kernels

declare = family(__name__)
declare("copy_bytes", None, POINTER, INT64, POINTER)
declare("widen_half", None, POINTER, INT64, POINTER, threads=lambda a: a[1])
declare("narrow_half", None, POINTER, INT64, POINTER, threads=lambda a: a[1])
declare("divide_float", None, POINTER, INT64, FLOAT, threads=lambda a: a[1])
declare("divide_double", None, POINTER, INT64, DOUBLE, threads=lambda a: a[1])


def copy(source: Array, out: Array) -> None:
    """Copies numbers of any dtype [n] to others of it, in memory that does not overlap."""
    need("source", source, source.dtype, source.size)
    need("out", out, source.dtype, source.size)
    if current() is None:
        kernels.copy_bytes(source.pointer, source.nbytes, out.pointer)
    else:
        current().copy(out.pointer, source.pointer, source.nbytes)


def widen_half(source: Array, out: Array) -> None:
    """float16 [n] to float32 [n]; exact."""
    n = source.size
    need("source", source, "float16", n)
    need("out", out, "float32", n)
    kernels.widen_half(source.pointer, n, out.pointer)


def narrow_half(source: Array, out: Array) -> None:
    """float32 [n] to float16 [n], to the nearest, ties to even."""
    n = source.size
    need("source", source, "float32", n)
    need("out", out, "float16", n)
    kernels.narrow_half(source.pointer, n, out.pointer)


def divide(values: Array, by: float) -> None:
    """Divides values [n], float32 or float64, in place."""
    dtype = "float32" if values.dtype == "float32" else "float64"
    need("values", values, dtype, values.size)
    (kernels.divide_float if dtype == "float32" else kernels.divide_double)(values.pointer, values.size, by)

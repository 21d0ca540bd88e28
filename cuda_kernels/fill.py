"""Memory filled with one value (fill.cu)."""
from .arrays import Array, need
from .backend import INT64, POINTER, current, family, kernels

declare = family(__name__)
declare("fill_int64", None, POINTER, INT64, INT64, threads=lambda a: a[1])
declare("fill_int32", None, POINTER, INT64, INT64, threads=lambda a: a[1])


def fill_int64(out: Array, value: int) -> None:
    """Writes `value` into out, int64 [n]."""
    need("out", out, "int64", out.size)
    kernels.fill_int64(out.pointer, out.size, value)


def fill_int32(out: Array, value: int) -> None:
    """Writes `value` into out, int32 [n]."""
    need("out", out, "int32", out.size)
    if current() is None:
        kernels.fill_int32(out.pointer, out.size, value)
    else:  # the driver's writes a quarter more in a second; the kernel is for C++
        current().fill(out.pointer, out.size, value & 0xffffffff)

"""Memory filled with one value (fill.cu)."""
from .backend import INT64, POINTER, family, kernels

declare = family(__name__)
declare("fill_int64", None, POINTER, INT64, INT64, threads=lambda a: (a[1] + 1) // 2)
declare("fill_int32", None, POINTER, INT64, INT64, threads=lambda a: (a[1] + 3) // 4)


def fill_int64(out: int, n: int, value: int) -> None:
    """Writes `value` into out, a pointer to int64 [n]."""
    kernels.fill_int64(out, n, value)


def fill_int32(out: int, n: int, value: int) -> None:
    """Writes `value` into out, a pointer to int32 [n]."""
    kernels.fill_int32(out, n, value)

"""Memory filled with one value (fill.cu)."""
from .host import INT64, POINTER, declare, kernels

declare("fill_int64", None, POINTER, INT64, INT64)


def fill_int64(out, n, value):
    """Writes `value` into out, a pointer to int64 [n]."""
    kernels.fill_int64(out, n, value)

"""Whether numbers are finite (finite.cu)."""
from .arrays import Array, described
from .backend import INT64, POINTER, family, kernels

_ACCESS_BYTES = 16  # that a thread reads at a time, as in finite.cu

declare = family(__name__)
for _name, _bytes in (("not_finite_half", 2), ("not_finite_float", 4), ("not_finite_double", 8)):
    declare(_name, None, POINTER, INT64, POINTER,
            threads=lambda a, width=_ACCESS_BYTES // _bytes: (a[1] + width - 1) // width)

_KERNELS = {"float16": "not_finite_half", "float32": "not_finite_float", "float64": "not_finite_double"}


def start_count(values: Array, count: Array) -> None:
    """Adds to count, a place of `counts().take()`, if there is an Inf or a NaN; it stays as it is if there is none.

    Args:
        values: float16, float32 or float64 [n].
        count: int64 [].

    Raises:
        TypeError: they have another dtype.
    """
    kernel = _KERNELS.get(values.dtype)
    if kernel is None:
        raise TypeError("values: got {}, expected one of {}".format(described(values), ", ".join(_KERNELS)))
    getattr(kernels, kernel)(values.pointer, values.size, count.pointer)

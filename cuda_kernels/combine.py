"""Bags of keys: where each begins, and the sum or mean of its rows (combine.cu)."""
from typing import Optional, Tuple

from . import sort
from .arrays import Array, allocated, described, need, need_rows, pointer, width
from .backend import INT32, INT64, POINTER, counts, current, family, kernels, row_lanes

declare = family(__name__)
declare("bag_offsets", None, POINTER, INT64, INT64, INT64, POINTER, POINTER, POINTER, threads=lambda a: a[2] + 1)
declare("sort_order", None, POINTER, INT64, INT64, INT64, POINTER, POINTER)
declare("bag_numbers", None, POINTER, INT64, INT64, POINTER, threads=lambda a: a[2])
declare("offsets_of_sorted", None, POINTER, INT64, INT64, POINTER, threads=lambda a: a[1] + 1)
for _name in ("combine", "combine_to_half", "combine_half"):
    declare(_name, None, POINTER, INT64, POINTER, POINTER, POINTER, INT64, INT64, INT32, POINTER,
            threads=lambda a: a[5] * row_lanes(a[1]))
for _name in ("divide", "divide_half"):
    declare(_name, None, POINTER, INT64, POINTER, INT64, POINTER, threads=lambda a: a[3] * row_lanes(a[1]))

_COMBINE = {("float32", "float32"): "combine", ("float32", "float16"): "combine_to_half",
            ("float16", "float16"): "combine_half"}


def bag_offsets(bags: Array, offsets: Array) -> int:
    """Finds where each bag begins.

    Args:
        bags: int64 [n], the bag of each item; or [n, 2], the indices of a SparseTensor, of which the first is the bag.
        offsets: int64 [n_bags + 1], out: items offsets[b] to offsets[b + 1] - 1 are in bag b.

    Returns:
        0: done; 1: all are in range but not sorted (use `sort_order`); 2 + i: item i is the first out of
        [0, n_bags). Unless it is 0, offsets are undefined.
    """
    n, _ = _items(bags)  # before places are taken
    need("offsets", offsets, "int64", offsets.size)
    found = counts()
    start_bag_offsets(bags, offsets, found.take(), found.take())
    return state_of_offsets(n, *found.read())


def start_bag_offsets(bags: Array, offsets: Array, outside: Array, unsorted: Array) -> None:
    """`bag_offsets` without waiting: what `state_of_offsets` takes goes into two places of `counts().take()`."""
    n, stride = _items(bags)
    need("offsets", offsets, "int64", offsets.size)
    kernels.bag_offsets(bags.pointer, stride, n, offsets.size - 1, offsets.pointer, outside.pointer, unsorted.pointer)


def _items(bags: Array) -> Tuple[int, int]:
    """(their number, numbers from one's bag to the next's)."""
    n, stride = bags.shape[0], width(bags)
    need("bags", bags, "int64", n * stride)
    return n, stride


def state_of_offsets(n: int, outside: int, unsorted: int) -> int:
    """What `bag_offsets` returns, from the two counts of `start_bag_offsets`."""
    return 2 + n - outside if outside else int(unsorted > 0)


def sort_order(bags: Array, offsets: Array, order: Array) -> None:
    """Sorts items by bag, in a stable way.

    Args:
        bags: int64 [n] or [n, 2], as for `bag_offsets`, each bag in [0, n_bags); n below 2**31.
        offsets: int64 [n_bags + 1], out: as `bag_offsets` gives for the sorted items.
        order: int32 [n], out: the item that goes to each place.
    """
    (n, stride), n_bags, gpu = _items(bags), offsets.size - 1, current()
    need("offsets", offsets, "int64", n_bags + 1)
    need("order", order, "int32", n)
    if gpu is None:
        kernels.sort_order(bags.pointer, stride, n, n_bags, offsets.pointer, order.pointer)
        return
    numbers, sorted_numbers = allocated(gpu, "uint32", n), allocated(gpu, "uint32", n)
    kernels.bag_numbers(bags.pointer, stride, n, numbers.pointer)
    sort.order(numbers, n_bags, sorted_numbers, order)
    kernels.offsets_of_sorted(sorted_numbers.pointer, n, n_bags, offsets.pointer)


def combine(source: Array, rows: Optional[Array], inverse: Array, offsets: Array, mean: int, out: Array) -> None:
    """Sums the rows of each bag in key order: out[b] = sum over its keys k of source[rows[inverse[k]]].

    Sums are made in float32, and rounded once.

    Args:
        source: float32 or float16 [*, dim].
        rows: int32 [U], or None where inverse itself has row numbers. A negative row adds nothing.
        inverse: int32 [n].
        offsets: int64 [n_bags + 1], ascending from 0 to n.
        mean: divide by the number of keys of the bag (keys with a negative row count too).
        out: [n_bags, dim], of the source's dtype or float16; zeros for an empty bag.
    """
    n, n_bags, dim = inverse.size, offsets.size - 1, width(source)
    if rows is not None:
        need("rows", rows, "int32", rows.size)
    need("inverse", inverse, "int32", n)
    need("offsets", offsets, "int64", n_bags + 1)
    need_rows("out", out, out.dtype, n_bags, dim)
    kernel = _COMBINE.get((source.dtype, out.dtype))
    if kernel is None or source.stride:
        raise TypeError("source, out: got {} and {}, expected adjacent rows of float32, or of float16 in `out` or in "
                        "both".format(described(source), described(out)))
    getattr(kernels, kernel)(source.pointer, dim, pointer(rows), inverse.pointer, offsets.pointer, n_bags, n, mean,
                             out.pointer)


def divide(values: Array, offsets: Array, out: Array) -> None:
    """Divides by the number of keys of each bag: out[b] = values[b] / (offsets[b + 1] - offsets[b]), or zeros.

    Args:
        values: float32 or float16 [n_bags, dim].
        offsets: int64 [n_bags + 1].
        out: the same [n_bags, dim]; may be values.
    """
    n_bags, dim = offsets.size - 1, width(out)
    dtype = "float32" if values.dtype == "float32" else "float16"
    need("offsets", offsets, "int64", n_bags + 1)
    need_rows("values", values, dtype, n_bags, dim)
    need_rows("out", out, dtype, n_bags, dim)
    kernel = kernels.divide if dtype == "float32" else kernels.divide_half
    kernel(values.pointer, dim, offsets.pointer, n_bags, out.pointer)

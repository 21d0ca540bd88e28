"""Bags of keys: where each begins, and the sum or mean of its rows (combine.cu)."""
from . import sort
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


def bag_offsets(bags: int, stride: int, n: int, n_bags: int, offsets: int) -> int:
    """Finds where each bag begins.

    Args:
        bags: pointer to int64: item i is in bag bags[i * stride].
        stride: 2 for the indices [n, 2] of a SparseTensor, else 1.
        n: number of items.
        n_bags: number of bags.
        offsets: pointer to int64 [n_bags + 1], out: items offsets[b] to offsets[b + 1] - 1 are in bag b.

    Returns:
        0: done; 1: all are in range but not sorted (use `sort_order`); 2 + i: item i is the first out of
        [0, n_bags). Unless it is 0, offsets are undefined.
    """
    found = counts()
    start_bag_offsets(bags, stride, n, n_bags, offsets, found.take(), found.take())
    return state_of_offsets(n, *found.read())


def start_bag_offsets(bags: int, stride: int, n: int, n_bags: int, offsets: int, outside: int, unsorted: int) -> None:
    """`bag_offsets` without waiting: what `state_of_offsets` takes goes into two pointers of `counts().take()`."""
    kernels.bag_offsets(bags, stride, n, n_bags, offsets, outside, unsorted)


def state_of_offsets(n: int, outside: int, unsorted: int) -> int:
    """What `bag_offsets` returns, from the two counts of `start_bag_offsets`."""
    return 2 + n - outside if outside else int(unsorted > 0)


def sort_order(bags: int, stride: int, n: int, n_bags: int, offsets: int, order: int) -> None:
    """Sorts items by bag, in a stable way.

    Args:
        bags: pointer to int64: item i is in bag bags[i * stride], in [0, n_bags).
        stride: 2 for the indices [n, 2] of a SparseTensor, else 1.
        n: number of items, below 2**31.
        n_bags: number of bags.
        offsets: pointer to int64 [n_bags + 1], out: as `bag_offsets` gives for the sorted items.
        order: pointer to int32 [n], out: the item that goes to each place.
    """
    gpu = current()
    if gpu is None:
        kernels.sort_order(bags, stride, n, n_bags, offsets, order)
        return
    numbers, sorted_numbers = gpu.allocate(4 * n), gpu.allocate(4 * n)
    kernels.bag_numbers(bags, stride, n, numbers)
    sort.order(numbers, n, n_bags, sorted_numbers, order)
    kernels.offsets_of_sorted(sorted_numbers, n, n_bags, offsets)


def combine(source: int, dim: int, rows: int, inverse: int, offsets: int, n_bags: int, n_keys: int, mean: int, out: int,
            source_dtype: str = "float32", dtype: str = "float32") -> None:
    """Sums the rows of each bag in key order: out[b] = sum over its keys k of source[rows[inverse[k]]].

    Sums are made in float32, and rounded once.

    Args:
        source: pointer to float32 or float16 [*, dim].
        dim: floats a row (D).
        rows: pointer to int32 [U], or 0 where inverse itself has row numbers. A negative row adds nothing.
        inverse: pointer to int32 [n].
        offsets: pointer to int64 [n_bags + 1], ascending from 0 to n.
        n_bags: number of bags.
        n_keys: n.
        mean: divide by the number of keys of the bag (keys with a negative row count too).
        out: pointer to float32 or float16 [n_bags, dim]; zeros for an empty bag.
        source_dtype: the source's dtype.
        dtype: that of `out`: the source's, or float16.
    """
    getattr(kernels, _COMBINE[source_dtype, dtype])(source, dim, rows, inverse, offsets, n_bags, n_keys, mean, out)


def divide(values: int, dim: int, offsets: int, n_bags: int, out: int, dtype: str = "float32") -> None:
    """Divides by the number of keys of each bag: out[b] = values[b] / (offsets[b + 1] - offsets[b]), or zeros.

    Args:
        values: pointer to float32 or float16 [n_bags, dim].
        dim: floats a row (D).
        offsets: pointer to int64 [n_bags + 1].
        n_bags: number of bags.
        out: pointer to the same [n_bags, dim]; may be values.
        dtype: of both, 'float32' or 'float16'.
    """
    (kernels.divide if dtype == "float32" else kernels.divide_half)(values, dim, offsets, n_bags, out)

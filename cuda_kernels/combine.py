"""Bags of keys: where each begins, and the sum or mean of its rows (combine.cu)."""
from .host import INT32, INT64, POINTER, declare, kernels

declare("bag_offsets", INT64, POINTER, INT64, INT64, INT64, POINTER)
declare("sort_order", None, POINTER, INT64, INT64, INT64, POINTER, POINTER)
declare("combine", None, POINTER, INT64, POINTER, POINTER, POINTER, INT64, INT32, POINTER)
declare("divide", None, POINTER, INT64, POINTER, INT64, POINTER)


def bag_offsets(bags, stride, n, n_bags, offsets):
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
    return kernels.bag_offsets(bags, stride, n, n_bags, offsets)


def sort_order(bags, stride, n, n_bags, offsets, order):
    """Sorts items by bag, in a stable way.

    Args:
        bags: pointer to int64: item i is in bag bags[i * stride], in [0, n_bags).
        stride: 2 for the indices [n, 2] of a SparseTensor, else 1.
        n: number of items, below 2**31.
        n_bags: number of bags.
        offsets: pointer to int64 [n_bags + 1], out: as `bag_offsets` gives for the sorted items.
        order: pointer to int32 [n], out: the item that goes to each place.
    """
    kernels.sort_order(bags, stride, n, n_bags, offsets, order)


def combine(source, dim, rows, inverse, offsets, n_bags, mean, out):
    """Sums the rows of each bag in key order: out[b] = sum over its keys k of source[rows[inverse[k]]].

    Args:
        source: pointer to float32 [*, dim].
        dim: floats a row (D).
        rows: pointer to int32 [U], or 0 where inverse itself has row numbers. A negative row adds nothing.
        inverse: pointer to int32 [n].
        offsets: pointer to int64 [n_bags + 1], ascending from 0 to n.
        n_bags: number of bags.
        mean: divide by the number of keys of the bag (keys with a negative row count too).
        out: pointer to float32 [n_bags, dim]; zeros for an empty bag.
    """
    kernels.combine(source, dim, rows, inverse, offsets, n_bags, mean, out)


def divide(values, dim, offsets, n_bags, out):
    """Divides by the number of keys of each bag: out[b] = values[b] / (offsets[b + 1] - offsets[b]), or zeros.

    Args:
        values: pointer to float32 [n_bags, dim].
        dim: floats a row (D).
        offsets: pointer to int64 [n_bags + 1].
        n_bags: number of bags.
        out: pointer to float32 [n_bags, dim]; may be values.
    """
    kernels.divide(values, dim, offsets, n_bags, out)

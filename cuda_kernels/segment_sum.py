"""Sums of rows by segment, in index order (segment_sum.cu)."""
from .host import INT32, INT64, POINTER, declare, kernels

declare("segment_sum", None, POINTER, INT64, POINTER, INT64, INT64, POINTER)
declare("bag_segment_sum", None, POINTER, INT64, POINTER, POINTER, INT64, INT32, INT64, POINTER)


def segment_sum(values, dim, segment_ids, n, num_segments, out):
    """Sums rows: out[s] = sum over i with segment_ids[i] == s of values[i], zeros where there is none.

    The result has the same bits for any number of threads.

    Args:
        values: pointer to float32 [n, dim].
        dim: floats a row (D).
        segment_ids: pointer to int32 [n], in any order, below num_segments; negative ones are left out.
        n: number of rows.
        num_segments: number of segments.
        out: pointer to float32 [num_segments, dim], overwritten.
    """
    kernels.segment_sum(values, dim, segment_ids, n, num_segments, out)


def bag_segment_sum(grad, dim, offsets, inverse, n_bags, mean, num_segments, out):
    """The gradient of `combine`: out[s] = sum over keys k with inverse[k] == s of grad[bag of k].

    The result has the same bits for any number of threads.

    Args:
        grad: pointer to float32 [n_bags, dim].
        dim: floats a row (D).
        offsets: pointer to int64 [n_bags + 1], ascending from 0 to n.
        inverse: pointer to int32 [n], below num_segments; keys with a negative one are left out.
        n_bags: number of bags.
        mean: weight each key with 1 / (number of keys of its bag).
        num_segments: number of segments.
        out: pointer to float32 [num_segments, dim], overwritten; zeros where there is no key.
    """
    kernels.bag_segment_sum(grad, dim, offsets, inverse, n_bags, mean, num_segments, out)

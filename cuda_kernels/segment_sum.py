"""Sums of rows by segment (segment_sum.cu)."""
from typing import Optional

from . import scan, sort
from .arrays import Array, allocated, array, described, need, need_rows, pointer, width
from .backend import INT32, INT64, POINTER, current, family, kernels, row_lanes

# Sources that a team of threads adds up in turn, as in segment_sum_terms.cuh and as in host_group_device.h.
CHUNK = 32
SOURCE_BYTES = 8  # of a source on its way to its team, as in segment_sum_gpu.cuh

declare = family(__name__)
declare("segment_sum", None, POINTER, INT64, POINTER, INT64, INT64, POINTER)
declare("segment_sum_double", None, POINTER, INT64, POINTER, INT64, INT64, POINTER)
declare("segment_sum_half", None, POINTER, INT64, POINTER, INT64, INT64, POINTER)
for _name in ("bag_segment_sum", "bag_segment_sum_half"):
    declare(_name, None, POINTER, INT64, POINTER, POINTER, INT64, INT32, INT64, POINTER)
declare("segment_count", None, POINTER, INT64, POINTER, POINTER, threads=lambda a: a[1])
declare("segment_place", None, POINTER, INT64, POINTER, POINTER, POINTER, INT64, POINTER, threads=lambda a: a[1])
declare("segment_clear", None, POINTER, INT64, INT64, POINTER, threads=lambda a: a[1])
for _name in ("segment_chunks", "segment_chunks_half"):
    declare(_name, None, POINTER, INT64, POINTER, INT64, INT32, POINTER, POINTER, INT64, POINTER,
            threads=lambda a: (a[7] + CHUNK - 1) // CHUNK * row_lanes(a[1]))
declare("segment_keys", None, POINTER, INT64, INT64, POINTER, threads=lambda a: a[1])
declare("segment_bags", None, POINTER, INT64, POINTER, INT64, threads=lambda a: a[1])
for _name in ("segment_in_order", "segment_in_order_half"):
    declare(_name, None, POINTER, INT64, POINTER, INT64, INT32, POINTER, POINTER, INT64, POINTER,
            threads=lambda a: a[7] * row_lanes(a[1]))
declare("segment_chunks_double", None, POINTER, INT64, POINTER, POINTER, INT64, POINTER,
        threads=lambda a: (a[4] + CHUNK - 1) // CHUNK * row_lanes(a[1]))
declare("segment_in_order_double", None, POINTER, INT64, POINTER, POINTER, INT64, POINTER,
        threads=lambda a: a[4] * row_lanes(a[1]))

SUMS = {"float16": "float32", "float32": "float32", "float64": "float64"}  # dtype of terms -> of their sums


def segment_sum(values: Array, segment_ids: Array, out: Array) -> None:
    """Sums rows: out[s] = sum over i with segment_ids[i] == s of values[i], zeros where there is none.

    In index order on the host, with the same bits for any number of threads; on a GPU too where it is deterministic,
    otherwise in any order.

    Args:
        values: float16, float32 or float64 [n, dim].
        segment_ids: int32 [n], in any order, below the number of segments; negative ones are left out.
        out: SUMS[dtype] [segments, dim], overwritten.

    Raises:
        TypeError: values of another dtype.
    """
    n, num_segments, dim = segment_ids.size, out.shape[0], width(out)
    need("segment_ids", segment_ids, "int32", n)
    _check(values, n, dim, out)
    if current() is None:
        kernel = {"float16": kernels.segment_sum_half, "float32": kernels.segment_sum,
                  "float64": kernels.segment_sum_double}[values.dtype]
        kernel(values.pointer, dim, segment_ids.pointer, n, num_segments, out.pointer)
    else:
        _sum_on_gpu(values, segment_ids, out, None, 0)


def bag_segment_sum(grad: Array, offsets: Array, inverse: Array, mean: int, out: Array) -> None:
    """The gradient of `combine`: out[s] = sum over keys k with inverse[k] == s of grad[bag of k].

    In key order on the host, with the same bits for any number of threads; on a GPU as for `segment_sum`.

    Args:
        grad: float32 or float16 [n_bags, dim].
        offsets: int64 [n_bags + 1], ascending from 0 to n.
        inverse: int32 [n], below the number of segments; keys with a negative one are left out.
        mean: weight each key with 1 / (number of keys of its bag).
        out: float32 [segments, dim], overwritten; zeros where there is no key.
    """
    n_bags, num_segments, dim = offsets.size - 1, out.shape[0], width(out)
    need("offsets", offsets, "int64", n_bags + 1)
    need("inverse", inverse, "int32", inverse.size)
    need("out", out, "float32", num_segments * dim)
    _check(grad, n_bags, dim, out)
    if current() is None:
        kernel = kernels.bag_segment_sum if grad.dtype == "float32" else kernels.bag_segment_sum_half
        kernel(grad.pointer, dim, offsets.pointer, inverse.pointer, n_bags, mean, num_segments, out.pointer)
    else:
        _sum_on_gpu(grad, inverse, out, offsets, mean)


def _check(terms: Array, n: int, dim: int, out: Array) -> None:
    if terms.dtype not in SUMS:
        raise TypeError("values: got {}, expected one of {}".format(described(terms), ", ".join(SUMS)))
    need_rows("values", terms, terms.dtype, n, dim)
    need_rows("out", out, SUMS[terms.dtype], out.shape[0], dim)


def _sum_on_gpu(values: Array, segments: Array, out: Array, offsets: Optional[Array], mean: int) -> None:
    """Both sums; offsets None where there are no bags, as for float64."""
    gpu, dtype = current(), values.dtype
    n, num_segments, dim = segments.size, out.shape[0], width(out)
    n_bags = 0 if offsets is None else offsets.size - 1
    if not n or not num_segments:
        gpu.clear(out.pointer, out.nbytes)
        return
    # A scan's state and the counts lie side by side: both must be zero before.
    state_bytes = scan.state_bytes(num_segments)
    state = allocated(gpu, "uint8", state_bytes + 4 * (num_segments + 1))
    starts = array(state.pointer + state_bytes, "int32", (num_segments + 1,), gpu)
    place = allocated(gpu, "int32", n)
    gpu.clear(state.pointer, state.nbytes)
    kernels.segment_count(segments.pointer, n, starts.pointer, place.pointer)
    scan.running_sum(starts, starts, state.pointer)
    if gpu.deterministic:
        keys, sorted_keys = allocated(gpu, "uint32", n), allocated(gpu, "uint32", n)
        kernels.segment_keys(segments.pointer, n, num_segments, keys.pointer)
        sort.order(keys, num_segments + 1, sorted_keys, place)
        if offsets is not None:
            kernels.segment_bags(place.pointer, n, offsets.pointer, n_bags)
        if dtype == "float64":
            kernels.segment_in_order_double(values.pointer, dim, place.pointer, starts.pointer, num_segments,
                                            out.pointer)
        else:
            in_order = kernels.segment_in_order if dtype == "float32" else kernels.segment_in_order_half
            in_order(values.pointer, dim, pointer(offsets), n_bags, mean, place.pointer, starts.pointer, num_segments,
                     out.pointer)
        return
    ordered = allocated(gpu, "uint8", SOURCE_BYTES * n)
    kernels.segment_place(segments.pointer, n, starts.pointer, place.pointer, pointer(offsets), n_bags, ordered.pointer)
    kernels.segment_clear(starts.pointer, num_segments, out.nbytes // num_segments // 4, out.pointer)
    total = starts.at(num_segments)
    if dtype == "float64":
        kernels.segment_chunks_double(values.pointer, dim, ordered.pointer, total.pointer, n, out.pointer)
    else:
        chunks = kernels.segment_chunks if dtype == "float32" else kernels.segment_chunks_half
        chunks(values.pointer, dim, pointer(offsets), n_bags, mean, ordered.pointer, total.pointer, n, out.pointer)

"""Sums of rows by segment (segment_sum.cu)."""
from . import scan, sort
from .backend import INT32, INT64, POINTER, current, family, kernels, row_lanes

# Sources that a team of threads adds up in turn, as in segment_sum_terms.cuh and as in host_group_sums.cu.
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


def segment_sum(values: int, dim: int, segment_ids: int, n: int, num_segments: int, out: int,
                dtype: str = "float32") -> None:
    """Sums rows: out[s] = sum over i with segment_ids[i] == s of values[i], zeros where there is none.

    In index order on the host, with the same bits for any number of threads; on a GPU too where it is deterministic,
    otherwise in any order.

    Args:
        values: pointer to dtype [n, dim].
        dim: numbers a row (D).
        segment_ids: pointer to int32 [n], in any order, below num_segments; negative ones are left out.
        n: number of rows.
        num_segments: number of segments.
        out: pointer to SUMS[dtype] [num_segments, dim], overwritten.
        dtype: 'float16', 'float32' or 'float64'.
    """
    if current() is None:
        kernel = {"float16": kernels.segment_sum_half, "float32": kernels.segment_sum,
                  "float64": kernels.segment_sum_double}[dtype]
        kernel(values, dim, segment_ids, n, num_segments, out)
    else:
        _sum_on_gpu(values, dim, segment_ids, n, num_segments, out, 0, 0, 0, dtype)


def bag_segment_sum(grad: int, dim: int, offsets: int, inverse: int, n_bags: int, n_keys: int, mean: int,
                    num_segments: int, out: int, dtype: str = "float32") -> None:
    """The gradient of `combine`: out[s] = sum over keys k with inverse[k] == s of grad[bag of k].

    In key order on the host, with the same bits for any number of threads; on a GPU as for `segment_sum`.

    Args:
        grad: pointer to float32 or float16 [n_bags, dim].
        dim: floats a row (D).
        offsets: pointer to int64 [n_bags + 1], ascending from 0 to n.
        inverse: pointer to int32 [n], below num_segments; keys with a negative one are left out.
        n_bags: number of bags.
        n_keys: n.
        mean: weight each key with 1 / (number of keys of its bag).
        num_segments: number of segments.
        out: pointer to float32 [num_segments, dim], overwritten; zeros where there is no key.
        dtype: that of `grad`.
    """
    if current() is None:
        kernel = kernels.bag_segment_sum if dtype == "float32" else kernels.bag_segment_sum_half
        kernel(grad, dim, offsets, inverse, n_bags, mean, num_segments, out)
    else:
        _sum_on_gpu(grad, dim, inverse, n_keys, num_segments, out, offsets, n_bags, mean, dtype)


def _sum_on_gpu(values: int, dim: int, segments: int, n: int, num_segments: int, out: int, offsets: int, n_bags: int,
                mean: int, dtype: str) -> None:
    """Both sums; offsets 0 where there are no bags, as for float64."""
    gpu = current()
    floats = dim * (2 if dtype == "float64" else 1)  # of a row of sums
    if not n or not num_segments:
        gpu.clear(out, num_segments * floats * 4)
        return
    # A scan's state and the counts lie side by side: both must be zero before.
    state_bytes = scan.state_bytes(num_segments)
    state = gpu.allocate(state_bytes + 4 * (num_segments + 1))
    starts, place = state + state_bytes, gpu.allocate(4 * n)
    gpu.clear(state, state_bytes + 4 * (num_segments + 1))
    kernels.segment_count(segments, n, starts, place)
    scan.running_sum(starts, num_segments, starts, state)
    if gpu.deterministic:
        keys, sorted_keys = gpu.allocate(4 * n), gpu.allocate(4 * n)
        kernels.segment_keys(segments, n, num_segments, keys)
        sort.order(keys, n, num_segments + 1, sorted_keys, place)
        if offsets:
            kernels.segment_bags(place, n, offsets, n_bags)
        if dtype == "float64":
            kernels.segment_in_order_double(values, dim, place, starts, num_segments, out)
        else:
            in_order = kernels.segment_in_order if dtype == "float32" else kernels.segment_in_order_half
            in_order(values, dim, offsets, n_bags, mean, place, starts, num_segments, out)
        return
    ordered = gpu.allocate(SOURCE_BYTES * n)
    kernels.segment_place(segments, n, starts, place, offsets, n_bags, ordered)
    kernels.segment_clear(starts, num_segments, floats, out)
    total = starts + 4 * num_segments
    if dtype == "float64":
        kernels.segment_chunks_double(values, dim, ordered, total, n, out)
    else:
        chunks = kernels.segment_chunks if dtype == "float32" else kernels.segment_chunks_half
        chunks(values, dim, offsets, n_bags, mean, ordered, total, n, out)

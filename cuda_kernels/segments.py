"""Around sums by segment: their numbers checked, and each term's row of the sums (segments.cu)."""
from . import gather
from .arrays import Array, need
from .backend import INT32, INT64, POINTER, family, kernels, key_type

declare = family(__name__)
declare("segment_numbers", None, POINTER, INT32, INT64, INT64, POINTER, POINTER, threads=lambda a: a[2])


def numbers(ids: Array, num_segments: int, out: Array, from_end: Array) -> None:
    """Segment ids as `segment_sum` takes them, none of them beyond its rows.

    Args:
        ids: int32 or int64 [n].
        num_segments: number of segments, below 2**31.
        out: int32 [n], out: the ids, -1 for those that are negative or too large.
        from_end: int64 [], 0 before (`counts().take()`): n minus the lowest position of an id that is too large, 0 if
            there is none.
    """
    n = ids.size
    need("ids", ids, ids.dtype, n)
    need("out", out, "int32", n)
    kernels.segment_numbers(ids.pointer, key_type(ids), n, num_segments, out.pointer, from_end.pointer)


def rows_of(sums: Array, segments: Array, out: Array) -> None:
    """Copies rows: out[i] = sums[segments[i]], zeros for a negative one.

    Args:
        sums: float16, float32 or float64 [*, dim].
        segments: int32 [n].
        out: [n, dim] of the same dtype.
    """
    if sums.dtype == out.dtype == "float64":  # a row of twice as many floats
        sums, out = sums.words(), out.words()
    gather.gather(sums, segments, out)

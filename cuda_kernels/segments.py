"""Around sums by segment: their numbers checked, and each term's row of the sums (segments.cu)."""
from . import gather
from .backend import INT32, INT64, KEY_TYPES, POINTER, family, kernels

declare = family(__name__)
declare("segment_numbers", None, POINTER, INT32, INT64, INT64, POINTER, POINTER, threads=lambda a: a[2])


def numbers(ids: int, dtype: str, n: int, num_segments: int, out: int, from_end: int) -> None:
    """Segment ids as `segment_sum` takes them, none of them beyond its rows.

    Args:
        ids: pointer to [n] of dtype.
        dtype: 'int32' or 'int64'.
        n: number of ids.
        num_segments: number of segments, below 2**31.
        out: pointer to int32 [n], out: the ids, -1 for those that are negative or too large.
        from_end: pointer to int64, 0 before (`counts().take()`): n minus the lowest position of an id that is too
            large, 0 if there is none.
    """
    kernels.segment_numbers(ids, KEY_TYPES[dtype], n, num_segments, out, from_end)


def rows_of(sums: int, dtype: str, dim: int, segments: int, n: int, out: int) -> None:
    """Copies rows: out[i] = sums[segments[i]], zeros for a negative one.

    Args:
        sums: pointer to dtype [*, dim].
        dtype: 'float16', 'float32' or 'float64'.
        dim: numbers a row.
        segments: pointer to int32 [n].
        n: number of rows to copy.
        out: pointer to dtype [n, dim].
    """
    if dtype == "float64":  # a row of twice as many floats
        gather.gather(sums, 2 * dim, segments, n, out)
    else:
        gather.gather(sums, dim, segments, n, out, dtype, dtype)

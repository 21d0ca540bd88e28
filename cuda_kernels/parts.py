"""Partial sums of bags, from all ranks (parts.cu)."""
from .backend import INT64, POINTER, family, kernels, row_lanes

declare = family(__name__)
declare("sum_parts", None, POINTER, INT64, INT64, INT64, POINTER, POINTER, threads=lambda a: a[2] * row_lanes(a[3]))


def sum_parts(parts: int, n_parts: int, n_bags: int, dim: int, offsets: int, out: int) -> None:
    """Adds up partial sums of bags in the order of the parts: out[b] = sum over p of parts[p][b].

    Sums are made in float32, and rounded once.

    Args:
        parts: pointer to float16 [n_parts, n_bags, dim].
        n_parts: partial sums of each bag.
        n_bags: number of bags.
        dim: floats a row (D).
        offsets: pointer to int64 [n_bags + 1]: the sums are divided by the number of keys of each bag; or 0.
        out: pointer to float16 [n_bags, dim]; zeros for a bag without keys, where there are offsets.
    """
    kernels.sum_parts(parts, n_parts, n_bags, dim, offsets, out)

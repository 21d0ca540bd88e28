"""Partial sums of bags, from all ranks, of many tables (group_parts.cu)."""
import numpy as np

from . import group_steps, groups
from .backend import INT64, POINTER, family

declare = family(__name__)
declare("group_parts", None, POINTER, POINTER, INT64, INT64, threads=lambda a: 32 * a[3])
declare("group_parts_member_bytes", INT64)

# What `sum_parts` takes of each member:
#   base     where `at` counts from: a pointer
#   at       pointer to int64 [n_parts], the bytes from base to each part: n_bags rows of dim numbers
#   n_parts  partial sums of each bag, at least one
#   half     1: numbers are float16; 0: float32
#   offsets  pointer to int64 [n_bags + 1]: sums are divided by the number of keys of each bag, zeros for none; or 0
#   out      pointer to n_bags rows of the same dtype, out
PARTS = groups.record("base", "at", "n_parts", "half", "dim", "n_bags", "offsets", "out")


def sum_parts(members: np.ndarray) -> None:
    """Adds up partial sums of bags in the order of the parts, in float32, and rounds once: out[b] = sum of part[b].

    Args:
        members: PARTS [T].
    """
    group_steps.run("sum_parts", members)

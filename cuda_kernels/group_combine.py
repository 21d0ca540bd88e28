"""The sums or means of bags of rows of many tables (group_combine.cu)."""
import numpy as np

from . import group_steps, groups
from .backend import INT64, POINTER, family

declare = family(__name__)
declare("group_combine", None, POINTER, POINTER, INT64, INT64, threads=lambda a: 32 * a[3])
declare("group_plain_combine", None, POINTER, POINTER, INT64, INT64, threads=lambda a: 32 * a[3])
declare("group_short_combine", None, POINTER, POINTER, INT64, INT64, threads=lambda a: 32 * a[3], block=128)
declare("group_weighted_combine", None, POINTER, POINTER, INT64, INT64, threads=lambda a: 32 * a[3])
declare("group_combine_member_bytes", INT64)

# What `combine` takes of each member:
#   source       rows of dim numbers (BLOCKS)
#   source_half  1: they are float16, and so is out; 0: float32
#   inverse      pointer to int32 [n_keys], the row of each key; negative: it adds nothing
#   offsets      pointer to int64 [n_bags + 1], ascending from 0 to n_keys
#   mean         1: sums are divided by the number of keys of the bag (keys with a negative row count too)
#   out          n_bags rows (BLOCKS), out; zeros for an empty bag
#   out_half     1: out is float16, to which sums are rounded; 0: float32
#   weights      pointer to float32 [n_keys], what each key's row is multiplied with, or 0; a mean is then divided by
#                the sum of the bag's weights; mean 2: by the root of the sum of their squares; 4 more, 5 or 6:
#                where that is zero, out and scales are zeros
#   scales       pointer to float32 [n_keys], out, of a mean with weights: these divided by their sum; 0: not wanted
COMBINE = groups.record(("source", groups.BLOCKS), "source_half", "dim", "inverse", "offsets", "n_bags", "n_keys",
                        "mean", ("out", groups.BLOCKS), "out_half", "weights", "scales")


def combine(members: np.ndarray) -> None:
    """Sums the rows of each bag in key order, as `combine.combine` for each member.

    Args:
        members: COMBINE [T].
    """
    group_steps.run("combine", members)

"""The sums or means of bags of rows of many tables (group_combine.cu)."""
from . import group_steps, groups
from .backend import INT64, POINTER, family

declare = family(__name__)
declare("group_combine", None, POINTER, POINTER, INT64, INT64, threads=lambda a: 32 * a[3])
declare("group_combine_member_bytes", INT64)

# What `combine` takes of each member:
#   source       rows of dim numbers (BLOCKS)
#   source_half  1: they are float16, and so is out; 0: float32
#   inverse      pointer to int32 [n_keys], the row of each key; negative: it adds nothing
#   offsets      pointer to int64 [n_bags + 1], ascending from 0 to n_keys
#   mean         1: sums are divided by the number of keys of the bag (keys with a negative row count too)
#   out          n_bags rows (BLOCKS), out; zeros for an empty bag
#   out_half     1: out is float16, to which sums are rounded; 0: float32
COMBINE = groups.record(("source", groups.BLOCKS), "source_half", "dim", "inverse", "offsets", "n_bags", "n_keys",
                        "mean", ("out", groups.BLOCKS), "out_half")


def combine(members):
    """Sums the rows of each bag in key order, as `combine.combine` for each member.

    Args:
        members: COMBINE [T].
    """
    group_steps.run("combine", members)

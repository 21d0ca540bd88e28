"""Where the bags of many tables' batches begin, and their longest (group_bags.cu)."""
import numpy as np

from . import group_steps, groups
from .arrays import Array, need
from .backend import INT64, POINTER, family

declare = family(__name__)
declare("group_bag_offsets", None, POINTER, POINTER, INT64, INT64, POINTER, threads=lambda a: 32 * a[3])
declare("group_longest_bags", None, POINTER, POINTER, INT64, INT64, POINTER, threads=lambda a: 32 * a[3])
declare("group_bags_member_bytes", INT64)

# What `offsets` takes of each member:
#   bags     pointer to int64: item i is in bag bags[i * stride]
#   stride   2 for the indices [n, 2] of a SparseTensor, else 1
#   n        number of items
#   n_bags   number of bags, below 2**32
#   most     the longest bag is not looked for where n is no more than this, and counts as empty
#   offsets  pointer to int64 [n_bags + 1], out: items offsets[b] to offsets[b + 1] - 1 are in bag b; 0: the member is
#            left out
#   splits   pointer to int64 [n_bags + 1], the offsets as they are given, to be checked: what is wrong with them counts
#            as `outside`; 0: `bags` says
BAGS = groups.record("bags", "stride", "n", "n_bags", "most", "offsets", "splits")


def offsets(members: np.ndarray, counts: Array) -> None:
    """Finds where each bag begins, as `combine.start_bag_offsets` and `bags.start_longest` for each member.

    Args:
        members: BAGS [T].
        counts: int64 [3, T], out: as these two count, `outside`, `unsorted` and `longest` of each member. One that is
            left out has zeros.
    """
    need("counts", counts, "int64", 3 * len(members))
    group_steps.run("bag_offsets", members, counts.pointer)

"""Where the bags of many tables' batches begin, and their longest (group_bags.cu)."""
import numpy as np

from . import bags, groups
from .backend import INT64, POINTER, current, family, kernels

declare = family(__name__)
declare("group_bag_offsets", None, POINTER, POINTER, INT64, INT64, POINTER, threads=lambda a: 32 * a[3])
declare("group_longest_bags", None, POINTER, POINTER, INT64, INT64, POINTER, threads=lambda a: 32 * a[3])
declare("group_bags_member_bytes", INT64)

# What `offsets` takes of each member:
#   bags     pointer to int64: item i is in bag bags[i * stride]
#   stride   2 for the indices [n, 2] of a SparseTensor, else 1
#   n        number of items
#   n_bags   number of bags, below 2**32
#   offsets  pointer to int64 [n_bags + 1], out: items offsets[b] to offsets[b + 1] - 1 are in bag b; 0: the member is
#            left out
BAGS = groups.record("bags", "stride", "n", "n_bags", "offsets")


def offsets(members, counts):
    """Finds where each bag begins, as `combine.start_bag_offsets` and `bags.start_longest` for each member.

    Args:
        members: BAGS [T].
        counts: pointer to int64 [3, T], out: what `read_counts` takes.
    """
    there = members["offsets"] != 0
    of_items = groups.running_sum(groups.tiles(np.where(there, members["n"] + 1, 0)))
    of_bags = groups.running_sum(groups.tiles(np.where(there, members["n_bags"], 0)))
    at, items_at, bags_at = groups.place(members, of_items, of_bags)
    if current() is not None:
        current().clear(counts, 24 * len(members))
    kernels.group_bag_offsets(at, items_at, len(members), int(of_items[-1]), counts)
    kernels.group_longest_bags(at, bags_at, len(members), int(of_bags[-1]), counts)


def read_counts(counts):
    """What a group can go on with, from the counts of `offsets`.

    Args:
        counts: int64 [3, T].

    Returns:
        (bool [T]: whose items are in range and sorted; int64 [T]: keys of the longest bag, if they are).
    """
    outside, unsorted, longest = counts
    return (outside == 0) & (unsorted == 0), longest >> bags.BITS

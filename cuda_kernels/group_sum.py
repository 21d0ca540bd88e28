"""Sums of rows by segment for many tables (group_sum.cu)."""
import numpy as np

from . import group_steps, groups
from .backend import INT64, POINTER, family

declare = family(__name__)
declare("group_sum", None, POINTER, INT64)
declare("group_sum_count", None, POINTER, POINTER, INT64, INT64, POINTER, POINTER, threads=lambda a: 32 * a[3])
declare("group_sum_place", None, POINTER, POINTER, INT64, INT64, POINTER, POINTER, POINTER, POINTER,
        threads=lambda a: 32 * a[3])
declare("group_sum_clear", None, POINTER, POINTER, INT64, INT64, POINTER, threads=lambda a: 32 * a[3])
declare("group_sum_chunks", None, POINTER, POINTER, INT64, INT64, POINTER, POINTER, threads=lambda a: 32 * a[3])
declare("group_sum_plain_chunks", None, POINTER, POINTER, INT64, INT64, POINTER, POINTER, threads=lambda a: 32 * a[3])
declare("group_sum_scaled_chunks", None, POINTER, POINTER, INT64, INT64, POINTER, POINTER, POINTER,
        threads=lambda a: 32 * a[3])
declare("group_sum_keys", None, POINTER, POINTER, INT64, INT64, INT64, POINTER, threads=lambda a: 32 * a[3])
declare("group_sum_bags", None, POINTER, POINTER, INT64, INT64, POINTER, POINTER, threads=lambda a: a[3])
declare("group_sum_in_order", None, POINTER, POINTER, INT64, INT64, POINTER, POINTER, POINTER, POINTER,
        threads=lambda a: 32 * a[3])
declare("group_sum_member_bytes", INT64)

# What `segment_sum` takes of each member:
#   values        n rows of dim numbers (BLOCKS); with bags one for each of these
#   values_half   1: they are float16; 0: float32
#   segments      pointer to int32 [n], below num_segments; rows with a negative one are left out
#   num_segments  number of segments
#   offsets       pointer to int64 [n_bags + 1], ascending from 0 to n: item i is a key of bag b, offsets[b] <= i <
#                 offsets[b + 1], and its row the bag's; 0: row i
#   mean          with bags, 1: each key is weighted with 1 / (number of keys of its bag)
#   scales        with bags, pointer to float32 [n], what each key is weighted with instead; 0: nothing
#   sums          num_segments rows of dim float32 (BLOCKS), out: zeros where a segment has no row
#   half          the same rows of float16 (BLOCKS), out: the sums, rounded; base 0: they are not wanted
# and what it writes there: first_segment, the number of the member's first segment among those of all members.
SUM = groups.record(("values", groups.BLOCKS), "values_half", "dim", "segments", "n", "num_segments", "offsets",
                    "n_bags", "mean", ("sums", groups.BLOCKS), ("half", groups.BLOCKS), "first_segment", "scales")


def segment_sum(members: np.ndarray) -> None:
    """Sums rows, as `segment_sum.segment_sum` or, for members with bags, `segment_sum.bag_segment_sum` for each member.

    In index order, or in any order as there.

    Args:
        members: SUM [T].

    Raises:
        ValueError: there are too many rows or segments for int32 numbers.
    """
    group_steps.run("segment_sum", members)

"""Distinct keys of many tables grouped by the rank that owns them (group_partition.cu)."""
import numpy as np

from . import group_steps, groups
from .arrays import Array, need, need_room
from .backend import INT64, POINTER, family

declare = family(__name__)
declare("group_partition", None, POINTER, INT64, POINTER, INT64, POINTER, POINTER)
declare("group_partition_count", None, POINTER, POINTER, INT64, INT64, POINTER, POINTER, threads=lambda a: 32 * a[3])
declare("group_partition_counts", None, POINTER, INT64, INT64, INT64, POINTER, POINTER, POINTER,
        threads=lambda a: a[1])
declare("group_partition_place", None, POINTER, POINTER, INT64, INT64, POINTER, POINTER, POINTER, POINTER,
        threads=lambda a: 32 * a[3])
declare("group_partition_remap", None, POINTER, POINTER, INT64, INT64, threads=lambda a: 32 * a[3])
declare("group_partition_member_bytes", INT64)

# What `partition` takes of each member:
#   values     pointer to its keys, as the distinct ones that `group_unique.unique` leaves
#   key_type   as numbered in common.cuh; 0: int64
#   n          at most so many
#   position   pointer to int32 [n], out: where each of them is among the member's keys in the order in which they are
#              sent: those of owner 0 in their order, of owner 1, ...
#   inverse    pointer to int32 [n_inverse], numbers of `values`, which become their positions
#   parts      a key's owner is first + key mod parts; 0: all ranks
#   first      see parts
PARTITION = groups.record("values", "key_type", "n", "position", "inverse", "n_inverse", "parts", "first")


def partition(members: np.ndarray, distinct: Array, counts: Array, sent: Array) -> None:
    """Groups keys by their owner, and renumbers, as `partition.partition` and `remap` for each member.

    The host need not know how many keys there are.

    Args:
        members: PARTITION [T].
        distinct: int64 [T], the number of each member's distinct keys.
        counts: int64 [N, T], out: keys of each member that each owner gets; N owners, at least 1.
        sent: int64 [*], out: the keys by owner, then by member. Room for as many as all members' n.
    """
    ranks = counts.shape[0]
    need("distinct", distinct, "int64", len(members))
    need("counts", counts, "int64", ranks * len(members))
    need_room("sent", sent, "int64", int(members["n"].sum()))
    members["parts"][members["parts"] == 0] = ranks
    group_steps.run("partition", members, distinct.pointer, ranks, counts.pointer, sent.pointer)

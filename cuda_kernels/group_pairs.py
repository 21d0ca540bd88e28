"""Keys of many tables' bags, each with the number of its bag, as they are sent to owners (group_pairs.cu)."""
import numpy as np

from . import group_steps, groups
from .backend import INT64, POINTER, family

declare = family(__name__)
declare("group_pairs", None, POINTER, POINTER, INT64, INT64, threads=lambda a: 32 * a[3])
declare("group_pairs_member_bytes", INT64)

# What `pairs` takes of each member:
#   keys      pointer to its n keys. key_type: as numbered in common.cuh
#   offsets   pointer to int64 [n_bags + 1]: bag b has the keys from offsets[b] to offsets[b + 1]
#   first     the number of bag 0
#   position  pointer to int32 [n], where each key goes, as `group_partition.partition` says it
#   out       BLOCKS of 16 bytes a key, out, one for each owner: of a block with k keys first these, int64 [k], then
#             their bags' numbers, int64 [k]
PAIRS = groups.record("keys", "key_type", "n", "offsets", "n_bags", "first", "position", ("out", groups.BLOCKS))


def pairs(members: np.ndarray) -> None:
    """Puts keys and their bags where they are sent from.

    Args:
        members: PAIRS [T].
    """
    group_steps.run("pairs", members)

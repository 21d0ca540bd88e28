"""Keys of many tables made distinct, each table's for itself (group_unique.cu)."""
import numpy as np

from . import group_steps, groups, scan
from .arrays import Array, need
from .backend import INT64, POINTER, family

declare = family(__name__)
declare("group_unique", None, POINTER, INT64, POINTER, POINTER, INT64, INT64)
declare("group_unique_claim", None, POINTER, POINTER, INT64, INT64, POINTER, POINTER, threads=lambda a: 32 * a[3])
declare("group_unique_number", None, POINTER, POINTER, POINTER, INT64, POINTER, POINTER, POINTER, POINTER,
        threads=lambda a: scan.threads(groups.TILE * a[3]), block=scan.BLOCK, exact=True)
declare("group_unique_inverse", None, POINTER, POINTER, POINTER, INT64, POINTER, POINTER, POINTER, POINTER,
        threads=lambda a: 32 * a[3])
declare("group_unique_member_bytes", INT64)

# What `unique` takes of each member:
#   keys     n keys of key_type (BLOCKS), a number of backend.KEY_TYPES
#   values   pointer to int64 [n], out: the distinct keys in the order in which they first appear, then undefined
#   inverse  pointer to int32 [n], out: values[inverse[i]] == keys[i]
# and what it writes there: first_slot and slots, the member's part of a GPU's scratch.
UNIQUE = groups.record(("keys", groups.BLOCKS), "key_type", "n", "values", "inverse", "first_slot", "slots")


def unique(members: np.ndarray, counts: Array) -> None:
    """Numbers each member's distinct keys in the order in which they first appear, as `unique.unique` does.

    Args:
        members: UNIQUE [T].
        counts: int64 [T], out: the number of each member's distinct keys.

    Raises:
        ValueError: there are too many keys for int32 numbers.
    """
    need("counts", counts, "int64", len(members))
    group_steps.run("unique", members, counts.pointer)

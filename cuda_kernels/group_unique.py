"""Keys of many tables made distinct, each table's for itself (group_unique.cu)."""
import numpy as np

from . import groups, host, scan
from . import unique as single
from .backend import INT64, POINTER, current, family, kernels

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


def _slots(n):
    """Places of each member's scratch table on a GPU, as `unique.slots`."""
    slots = np.left_shift(1, np.maximum(4, np.frexp(2.0 * n - 1)[1]).astype(np.int64))
    return np.where(slots <= 1 << 20, 2 * slots, slots)


def _threads(size):
    """Tables that a host works on at once."""
    return min(size, host.get_threads())


def scratch_bytes(n):
    """Bytes of scratch that `unique` needs for members of n [T] keys.

    Raises:
        ValueError: there are too many keys for int32 numbers.
    """
    tiles = int(((n + groups.TILE - 1) // groups.TILE).sum())
    if tiles * groups.TILE >= 1 << 31:
        raise ValueError("The batches of a group's {} tables may have up to 2**31 - 1 keys in all on one rank, got "
                         "{}.".format(len(n), int(n.sum())))
    if current() is None:
        return 4 * _threads(len(n)) * _most_slots(n)
    return _Scratch(0, tiles, int(_slots(n).sum())).end


def _most_slots(n):
    """Places of the host's largest scratch table."""
    return single.slots(int(n.max())) if len(n) else 0


class _Scratch:
    """A GPU's scratch. What must be zero before, to `cleared`, comes first."""

    def __init__(self, scratch, tiles, slots):
        self.state = scratch
        self.before_tile = scratch + scan.state_bytes(groups.TILE * tiles)
        self.tables = self.before_tile + 8 * (tiles + 1)
        self.rank = self.cleared = self.tables + 4 * slots
        self.member_of_tile = self.rank + 4 * groups.TILE * tiles
        self.end = self.member_of_tile + 4 * tiles


def unique(members, counts, scratch):
    """Numbers each member's distinct keys in the order in which they first appear, as `unique.unique` does.

    Args:
        members: UNIQUE [T].
        counts: pointer to int64 [T], out: the number of each member's distinct keys.
        scratch: pointer to scratch_bytes(members["n"]) bytes, 8-byte aligned; need not be cleared.
    """
    gpu, size, n = current(), len(members), members["n"]
    if gpu is None:
        at, = groups.place(members)
        kernels.group_unique(at, size, counts, scratch, _most_slots(n), _threads(size))
        return
    members["slots"] = _slots(n)
    slots = groups.running_sum(members["slots"])
    members["first_slot"] = slots[:-1]
    starts = groups.running_sum(groups.tiles(n))
    at, starts_at = groups.place(members, starts)
    tiles = int(starts[-1])
    part = _Scratch(scratch, tiles, int(slots[-1]))
    gpu.clear(counts, 8 * size)
    gpu.clear(scratch, part.cleared - scratch)
    kernels.group_unique_claim(at, starts_at, size, tiles, part.tables, part.member_of_tile)
    kernels.group_unique_number(at, starts_at, part.member_of_tile, tiles, part.tables, part.rank, part.before_tile,
                                part.state)
    kernels.group_unique_inverse(at, starts_at, part.member_of_tile, tiles, part.tables, part.rank, part.before_tile,
                                 counts)

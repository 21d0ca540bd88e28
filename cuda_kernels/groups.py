"""Kernels over a group of tables in one launch (groups.cuh): how a wrapper describes the group's members.

A group is a NumPy array of records, one a member, of the dtype that the wrapper's module has: `members(find.FIND, T)`
makes one, whose fields are assigned as columns. Pointers are integers. A member without items does nothing.

Rows (or keys) may lie in several blocks, as in a buffer [rank][member][rows]: the field is of dtype BLOCKS then, and
`lie_at` and `lie_in_blocks` fill it.

What a wrapper does is a step in C++ (group_steps.py): it copies the records to a GPU, with all that it needs besides,
in one go; launches do not grow with the number of members.
"""
import numpy as np

# As `Blocks` in groups.cuh: a pointer, the number of blocks N (0: all rows follow it), pointer to int64 [N + 1], the
# running sum of the blocks' rows, and pointer to int64 [N], where each begins, in bytes after the first pointer.
BLOCKS = np.dtype([("base", np.int64), ("count", np.int64), ("starts", np.int64), ("offsets", np.int64)])

TILE = 32  # items that a warp of a GPU takes at a time, as in groups.cuh and as in host_group_device.h


def record(*fields):
    """The dtype of a record: fields are names, of int64 numbers and pointers, or (name, dtype)."""
    return np.dtype([(field, np.int64) if isinstance(field, str) else field for field in fields])


def members(dtype, count):
    """`count` records, all zeros: null pointers, no items, no blocks."""
    return np.zeros(count, dtype)


def lie_at(blocks, pointers):
    """Rows of each member lie side by side.

    Args:
        blocks: a column of BLOCKS, as `records["out"]`, filled.
        pointers: where the first row of each is, [T] or one for all.
    """
    blocks["base"], blocks["count"] = pointers, 0


def lie_in_blocks(blocks, base, count, starts, offsets):
    """Rows of each member lie in several blocks.

    Args:
        blocks: a column of BLOCKS [T], filled.
        base: where offsets count from: a pointer, or [T] of them.
        count: blocks of each member (N).
        starts: pointer to int64 [T, N + 1], the running sum of each member's rows by block.
        offsets: pointer to int64 [T, N], bytes from `base` to each block.
    """
    number = np.arange(len(blocks), dtype=np.int64)
    blocks["base"], blocks["count"] = base, count
    blocks["starts"] = starts + 8 * (count + 1) * number
    blocks["offsets"] = offsets + 8 * count * number

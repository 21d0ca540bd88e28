"""Kernels over a group of tables in one launch (groups.cuh): how a wrapper describes the group's members.

A group is a NumPy array of records, one a member, of the dtype that the wrapper's module has: `members(find.FIND, T)`
makes one, whose fields are assigned as columns. Pointers are integers. A member without items does nothing.

Rows (or keys) may lie in several blocks, as in a buffer [rank][member][rows]: the field is of dtype BLOCKS then, and
`lie_at` and `lie_in_blocks` fill it.

A wrapper copies the records to a GPU, with all that it needs besides, in one go; launches do not grow with the number
of members.
"""
import numpy as np

from .backend import current
from .upload_ring import UploadRing

# As `Blocks` in groups.cuh: a pointer, the number of blocks N (0: all rows follow it), pointer to int64 [N + 1], the
# running sum of the blocks' rows, and pointer to int64 [N], where each begins, in bytes after the first pointer.
BLOCKS = np.dtype([("base", np.int64), ("count", np.int64), ("starts", np.int64), ("offsets", np.int64)])

TILE = 32  # items that a warp of a GPU takes at a time, as in groups.cuh and as in host_group_steps.cu

_rings = {}  # a Gpu's UploadRing


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


def block_layout(counts, row_bytes, align=1):
    """Where blocks lie in a buffer [rank][member][rows], every rank's part behind the previous one's.

    Args:
        counts: int64 [N, T], rows of each block.
        row_bytes: [T] or one for all.
        align: every block begins at a multiple of it, a power of two.

    Returns:
        (starts int64 [T, N + 1], offsets int64 [T, N]: as `lie_in_blocks` takes them, bytes int64 [N]: those of each
        rank's part).
    """
    ranks, size = counts.shape
    starts = np.zeros((size, ranks + 1), np.int64)
    np.cumsum(counts.T, axis=1, out=starts[:, 1:])
    nbytes = counts * row_bytes + (align - 1) & -align
    offsets = running_sum(nbytes.reshape(-1))[:-1].reshape(ranks, size)
    return starts, np.ascontiguousarray(offsets.T), nbytes.sum(axis=1)


def running_sum(counts):
    """int64 [n + 1]: the sums of the first 0, 1, ... n of `counts`."""
    sums = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=sums[1:])
    return sums


def tiles(n, per_tile=TILE, dims=None):
    """Pieces of each member that a warp takes, [T]; on the host the items themselves.

    Args:
        n: items of each member, int64 [T].
        per_tile: items of a piece or, with dims, threads: an item is for as many as serve a row of `dims` [T] numbers.
    """
    if current() is None:
        return n
    return ((n if dims is None else n * row_lanes(dims)) + per_tile - 1) // per_tile


def row_lanes(dims):
    """`backend.row_lanes` of each of `dims` [T]."""
    lanes = np.ones(len(dims), np.int64)
    for less in (1, 2, 4, 8, 16):
        lanes[dims > 4 * less] = 2 * less
    return lanes


def place(*arrays):
    """Puts contiguous arrays where kernels can read them: as they are on the host, in one copy on a GPU.

    Returns:
        Their pointers, valid as long as the arrays live and, on a GPU, until the current request ends.
    """
    gpu = current()
    if gpu is None:
        return [array.ctypes.data for array in arrays]
    pieces, nbytes = [], 0
    for array in arrays:
        pieces.append((nbytes, array.ctypes.data, array.nbytes))
        nbytes += -(-array.nbytes // 16) * 16
    target = gpu.allocate(nbytes)
    if nbytes:
        if gpu not in _rings:
            _rings[gpu] = UploadRing(gpu)
        _rings[gpu].send(target, pieces, nbytes)
    return [target + offset for offset, _, _ in pieces]

"""What the tests of group kernels share: one piece of memory for all arrays of a group, with guards between them.

Records hold pointers, which a test knows only when the memory is where kernels run: so it puts arrays into an `Arena`,
which gives offsets, and fills its records in a function that is called with the memory's address.
"""
import numpy as np
from kernel_checks import dirty
from kernel_devices import NONSENSE, call, same_bits

from sok1x.cuda_kernels import arrays, groups

GUARD = 32  # bytes before and after each array


class Arena:
    """Arrays side by side in one piece of memory."""

    def __init__(self):
        self._pieces, self._size, self._first = [], GUARD, {}

    def put(self, array, align=16):
        """Adds an array; returns its offset. align: of its first byte, relative to other multiples of it."""
        array = np.ascontiguousarray(array)
        at = self._size + -self._size % 16 + (align if align < 16 else 0)
        self._pieces.append((at, array))
        self._first[at] = array
        self._size = at + array.nbytes + GUARD
        return at

    def out(self, shape, dtype, align=16):
        """Adds an array full of nonsense; returns its offset."""
        return self.put(dirty(shape, dtype), align)

    def run(self, function, *outputs):
        """Calls function(address of the memory) on the current device; checks that only `outputs` have changed.

        Returns:
            The arrays at the offsets `outputs`.
        """
        whole = np.full(self._size + 16, NONSENSE, np.uint8)
        start = -whole.ctypes.data % 16
        memory = whole[start:]
        expected = np.full(len(memory), NONSENSE, np.uint8)
        for at, array in self._pieces:
            memory[at:at + array.nbytes] = expected[at:at + array.nbytes] = array.reshape(-1).view(np.uint8)
        call(lambda memory: function(memory.pointer), memory)
        found = []
        for at in outputs:
            array = self._first[at]
            found.append(memory[at:at + array.nbytes].copy().view(array.dtype).reshape(array.shape))
            expected[at:at + array.nbytes] = memory[at:at + array.nbytes]
        changed = np.flatnonzero(memory != expected)
        assert not changed.size, "bytes {} of {} changed, which are no output".format(changed[:10], len(memory))
        return tuple(found)

    def same_bits(self, function, *outputs):
        """`run` for all thread counts, see `kernel_devices.same_bits`; the outputs as a list."""
        found = same_bits(lambda: self.run(function, *outputs))
        return list(found) if len(outputs) > 1 else [found]


def blocks_of(random, n, ranks):
    """Random sizes int64 [ranks] of blocks, some of them empty, that have n rows in all."""
    cuts = np.sort(random.choice([0, n] + list(random.randint(0, n + 1, ranks)), ranks - 1)) if ranks > 1 else []
    return np.diff(np.concatenate([[0], cuts, [n]])).astype(np.int64)


def block_layout(counts, row_bytes, align=1):
    """Where blocks lie in a buffer [rank][member][rows], every rank's part behind the previous one's.

    Args:
        counts: int64 [N, T], rows of each block.
        row_bytes: [T] or one for all.
        align: every block begins at a multiple of it, a power of two.

    Returns:
        (starts int64 [T, N + 1], offsets int64 [T, N]: as `groups.lie_in_blocks` takes them, bytes int64 [N]: those of
        each rank's part).
    """
    ranks, size = counts.shape
    starts = np.zeros((size, ranks + 1), np.int64)
    np.cumsum(counts.T, axis=1, out=starts[:, 1:])
    nbytes = counts * row_bytes + (align - 1) & -align
    offsets = (np.cumsum(nbytes) - nbytes.reshape(-1)).reshape(ranks, size)
    return starts, np.ascontiguousarray(offsets.T), nbytes.sum(axis=1)


class Blocked:
    """Rows of all members in a buffer [rank][member][rows] of an arena, with nonsense before each block if aligned.

    Args:
        arrays: [n, ...] of each member, all of one dtype or of several.
        align: see `block_layout`.
    """

    def __init__(self, arena, random, arrays, ranks, align=1):
        self.arrays, self.ranks = arrays, ranks
        row_bytes = np.array([array.dtype.itemsize * int(np.prod(array.shape[1:])) for array in arrays], np.int64)
        counts = np.stack([blocks_of(random, len(array), ranks) for array in arrays], axis=1)
        self.starts, self.offsets, nbytes = block_layout(counts, row_bytes, align)
        buffer = np.full(int(nbytes.sum()), NONSENSE, np.uint8)
        self._places = []
        for t, array in enumerate(arrays):
            for b in range(ranks):
                rows = array[self.starts[t, b]:self.starts[t, b + 1]]
                at = int(self.offsets[t, b])
                self._places.append((t, b, at, rows.nbytes))
                buffer[at:at + rows.nbytes] = np.ascontiguousarray(rows).reshape(-1).view(np.uint8)
        self.at = arena.put(buffer)
        self._starts_at, self._offsets_at = arena.put(self.starts), arena.put(self.offsets)

    def lie(self, blocks, base):
        """Fills a column of BLOCKS for the memory at `base`."""
        groups.lie_in_blocks(blocks, base + self.at, self.ranks, base + self._starts_at, base + self._offsets_at)

    def read(self, buffer):
        """Each member's rows from what `run` has found of `at`; all that is between blocks must be nonsense."""
        found = [np.empty_like(array) for array in self.arrays]
        rest = buffer.copy()
        for t, b, at, nbytes in self._places:
            rows = found[t][self.starts[t, b]:self.starts[t, b + 1]]
            rows[...] = buffer[at:at + nbytes].view(rows.dtype).reshape(rows.shape)
            rest[at:at + nbytes] = NONSENSE
        assert (rest == NONSENSE).all(), "wrote between blocks"
        return found


class Flat:
    """As `Blocked`, for rows that lie side by side; an output's array is full of nonsense."""

    def __init__(self, arena, random, arrays, align=16):
        self.at = [arena.put(array, align) for array in arrays]

    def lie(self, blocks, base):
        """Fills a column of BLOCKS for the memory at `base`."""
        groups.lie_at(blocks, base + np.array(self.at, np.int64).reshape(len(self.at)))


def sizes(random, count, most):
    """Items of each of `count` members, int64: many small ones, empty ones, sizes around a warp's, and a large one."""
    n = random.choice([0, 0, 1, 2, 31, 32, 33, 63, 64, 65, 127, 128, 129, 257], count)
    some = random.uniform(size=count) < 0.3
    n[some] = random.randint(0, most + 1, some.sum())
    if count > 1:
        n[random.randint(count)] = most
    return n.astype(np.int64)


def int64(pointer, *shape):
    """An `Array` of int64 in an arena's memory."""
    return arrays.array(int(pointer), "int64", shape)


def put_all(arena, arrays, align=16):
    """Puts several arrays; their offsets, int64 [T]."""
    return np.array([arena.put(array, align) for array in arrays], np.int64)

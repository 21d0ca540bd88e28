"""The temporary memory of one request on a GPU: a few blocks of TensorFlow's, cut up here.

A block costs 8 us, for TensorFlow's allocator and the order of streams; a piece of one costs less than one. The first
block is as large as all that the same kernel (a node in one session) took in its previous run; what does not go into
it gets blocks of its own size. So a run never holds more than what it asks for and what the previous one did, and with
batches of one size exactly what it asks for, each piece rounded up to 256 bytes.
"""
from typing import Callable, Dict

from sok1x.graph_ops.bridge.errors import CallError

ALIGNMENT = 256  # bytes; what CUDA's own allocations have
_KERNELS_REMEMBERED = 10000

_previous: Dict[int, int] = {}  # kernel -> bytes that its last run took


class Arena:
    """Pieces of blocks that `allocate` gives; all are free again with the blocks, when the request finishes.

    Args:
      allocate: function from a number of bytes to a pointer; raises CallError where there are not so many.
      kernel: the number of the request's kernel.
    """

    __slots__ = ("_allocate", "_kernel", "_at", "_left", "_taken")

    def __init__(self, allocate: Callable[[int], int], kernel: int) -> None:
        self._allocate, self._kernel = allocate, kernel
        self._at = self._left = self._taken = 0  # the rest of the block that has most left; bytes of all pieces

    def take(self, nbytes: int) -> int:
        """A pointer to nbytes bytes; 0 for none.

        Raises:
          CallError: as `allocate`.
        """
        nbytes = -(-nbytes // ALIGNMENT) * ALIGNMENT
        if nbytes > self._left:
            at = self._piece_of_another_block(nbytes)
        else:
            at = self._at if nbytes else 0
            self._at += nbytes
            self._left -= nbytes
        self._taken += nbytes
        return at

    def reserve(self, nbytes: int) -> None:
        """Sees to it that pieces of so many bytes in all, each rounded up, can be taken without another block.

        Raises:
          CallError: as `take`.
        """
        if nbytes > self._left:
            self._at, self._left = self._allocate(nbytes), nbytes

    def _piece_of_another_block(self, nbytes: int) -> int:
        size = nbytes if self._taken else max(nbytes, _previous.get(self._kernel, 0))
        try:
            at = self._allocate(size)
        except CallError:
            if size == nbytes:
                raise
            size, at = nbytes, self._allocate(nbytes)  # memory has become scarce since
        if size - nbytes > self._left:
            self._at, self._left = at + nbytes, size - nbytes
        return at

    def end(self) -> None:
        """Notes what was taken, for the kernel's next run."""
        if self._taken:
            if len(_previous) >= _KERNELS_REMEMBERED:  # kernels of sessions long closed
                _previous.clear()
            _previous[self._kernel] = self._taken

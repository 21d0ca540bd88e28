"""Memory for one exchange of all members' rows: [rank][member][rows]."""
from sok1x.cuda_kernels import groups

ALIGN = 16  # bytes at whose multiples blocks begin, so that kernels move four floats at a time; the exchange's unit


class Buffer:
    """Memory [rank][member][rows] for one exchange.

    Attributes:
      pointer: to it. units: int64 [N], what belongs to each rank, in units of `align` bytes.
    """

    def __init__(self, batch, counts, row_bytes, align=ALIGN):
        self._ranks = len(counts)
        self._starts, self._offsets, nbytes = groups.block_layout(counts, row_bytes, align)
        self.units = nbytes // align
        self.pointer = batch.temporary("uint8", int(nbytes.sum()))
        self._placed = groups.place(self._starts, self._offsets)

    def lie_in(self, blocks):
        """Fills a column of BLOCKS [T] with where each member's rows lie."""
        groups.lie_in_blocks(blocks, self.pointer, self._ranks, *self._placed)

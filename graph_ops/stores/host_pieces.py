"""All rows of columns in host memory, for kernels that change whole tables: some at a time, adjacent, on the device."""
from typing import Any, Iterator, List, Sequence

from sok1x.cuda_kernels.arrays import Array
from sok1x.graph_ops.stores.host_column import HostColumn

PIECE_BYTES = 64 << 20  # at most, of a row's columns together


class HostPieces:
    """See the module's text. It has its memory from the beginning.

    Args:
      columns: which the request's device reaches. rows: how many of them are changed, from the first on.

    Raises:
      CallError: there is no memory.
    """

    def __init__(self, request: Any, columns: Sequence[HostColumn], rows: int) -> None:
        self._columns, self._rows = columns, rows
        self._at_once = max(1, min(rows, PIECE_BYTES // sum(column.row_bytes for column in columns)))
        self._pieces: List[Array] = [request.temporary(column.dtype, self._at_once, *column.row_shape)
                                     for column in columns]

    def each(self) -> Iterator[List[Array]]:
        """The rows of each column, for each piece; what it has become is taken when the next is asked for."""
        for first in range(0, self._rows, self._at_once):
            n = min(self._at_once, self._rows - first)
            pieces = [piece.front(n) for piece in self._pieces]
            for column, piece in zip(self._columns, pieces):
                column.copy(piece, first)
            yield pieces
            for column, piece in zip(self._columns, pieces):
                column.copy(piece, first, back=True)

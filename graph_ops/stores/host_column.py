"""What the host's memory has for each row of one variable of a table with a cache; and rows of it that move alone.

What a GPU cannot reach by itself, because it is not pinned, goes through copies: slower, with the same result.
"""
from typing import Any, NamedTuple, Optional

import numpy as np

from sok1x.cuda_kernels import arrays, backend, cache_rows, row_numbers, sort
from sok1x.cuda_kernels.arrays import ITEM_BYTES, Array, of_numpy
from sok1x.cuda_kernels.cache_rows import Moves
from sok1x.graph_ops.bridge import tiers

_FEW = 4096     # rows that are on the bus for less time than it takes to sort them


class Rows(NamedTuple):
    """Rows that move.

    Attributes:
      cached: int32 [n] `Array`, which rows of the cache; None: rows 0 to n - 1. home: likewise in the host's memory.
        Where a number is negative nothing moves.
    """

    cached: Any
    home: Any

    @property
    def size(self) -> int:
        """n."""
        return int((self.home if self.cached is None else self.cached).size)

    def some(self, first: int, n: int) -> "Rows":
        """n of them, from `first` on."""
        return Rows(*[None if one is None else one.some(first, n) for one in self])


def sorted_bytes(n: int) -> int:
    """Bytes of a GPU's temporary memory that `by_home` takes at most, for n rows."""
    return 12 * n + sort.scratch_bytes(n) if n > _FEW else 0


def by_home(request: Any, rows: Rows, limit: int) -> Rows:
    """The same rows; on a GPU, where they are many, in the order in which they lie in the host's memory.

    A GPU that reads rows of the host's memory in random order has the address of every one of them translated: on an
    H200 34 million rows a second, 17 GB/s where rows have 512 bytes, of the bus's 55.

    Args:
      limit: numbers in `home` are below it; negative ones come last.
    """
    n = rows.size
    if request.gpu is None or n <= _FEW:
        return rows
    home, places = request.temporary("int32", n), request.temporary("int32", n)
    sort.order(rows.home, limit, home, places)
    if rows.cached is None:
        return Rows(places, home)
    cached = request.temporary("int32", n)
    row_numbers.look_up(rows.cached, places, cached)
    return Rows(cached, home)


class HostColumn:
    """See the module's text. A column of its own, or a field in records that it shares with other variables.

    Attributes:
      name: the variable's. dtype, row_shape: of its rows. row_bytes: of one. value: what new rows begin with.
      rows: how many there is memory for, and have values where they have been given out.
      memory: where row 0 is. stride: bytes from one row to the next. offset: of these, those before the row.
      in_record: whether it is a field. shares: whether it may become one.
    """

    def __init__(self, request: Any, name: str, like: Any, value: float, shares: bool) -> None:
        self._request, self.name, self.dtype, self.row_shape = request, name, like.dtype, tuple(like.shape[1:])
        self.row_bytes = ITEM_BYTES[self.dtype] * int(np.prod(self.row_shape, dtype=np.int64))
        self.value, self.shares = value, shares
        self.rows, self.memory, self.stride, self.offset, self._pinned = 0, 0, self.row_bytes, 0, False
        self.in_record = False

    def place(self, column: tiers.Column) -> None:
        """Where it is."""
        self.in_record, self.offset = column.stride > 0, column.offset
        self.stride = column.stride or self.row_bytes
        self.rows, self.memory = column.bytes // self.stride, column.memory + column.offset
        self._pinned = column.pinned == column.bytes

    def array(self, rows: int) -> Array:
        """The first rows as an `Array` in the host's memory."""
        size = rows * self.row_bytes // ITEM_BYTES[self.dtype]
        return Array(self.memory, self.dtype, (rows,) + self.row_shape, size,
                     stride=0 if self.stride == self.row_bytes else self.stride)

    def numpy(self, rows: int) -> np.ndarray:
        """The same; what a GPU has been told to write there must be waited for."""
        return self.array(rows).numpy()

    def on_device(self, rows: int) -> Array:
        """The first rows where kernels read them fast: on a GPU a copy."""
        here = self.array(rows)
        if self._request.gpu is None:
            return here
        there = self._request.temporary(self.dtype, *here.shape)
        if self.reachable:
            self.copy(there, 0)
        else:
            there.write(here.read())
        return there

    @property
    def reachable(self) -> bool:
        """Whether kernels on the request's device read and write it."""
        return self._request.gpu is None or self._pinned

    def copy(self, array: Array, first: int, back: bool = False) -> None:
        """Copies rows from `first` on to those of an array, adjacent ones, or, `back`, from there; by the request's
        device, which must reach them."""
        here = self.array(self.rows).some(first, array.shape[0])
        if back:
            cache_rows.move(Moves(array, here))
        else:
            cache_rows.move(into=Moves(here, array))

    def write(self, array: Array, rows: Rows, scratch: Optional[Array] = None) -> None:
        """Writes rows of the variable back.

        Args:
          array: the variable's `Array`, or one like it, in the memory of the request's device.
          rows: distinct ones.
          scratch: where a GPU does not reach the column, uint8 of its memory for so many rows, and four bytes more for
            each; or None, where there may be no memory.
        """
        here = self.array(self.rows)
        if self.reachable:
            cache_rows.move(Moves(array, here, rows.cached, rows.home))
            return
        piece = self._piece(scratch, rows)
        cache_rows.move(Moves(array if rows.cached is not None else array.some(0, rows.size), piece, rows.cached))
        values, home = piece.read(), _numbers(rows.home, rows)
        with backend.use(None):
            cache_rows.move(Moves(of_numpy(values), here, None, of_numpy(home)))

    def read(self, array: Array, rows: Rows, scratch: Optional[Array] = None) -> None:
        """Fetches rows for the variable; as `write`."""
        here = self.array(self.rows)
        if self.reachable:
            cache_rows.move(into=Moves(here, array, rows.home, rows.cached))
            return
        piece = self._piece(scratch, rows)
        home, values = _numbers(rows.home, rows), np.zeros(piece.shape, np.int32)
        with backend.use(None):
            cache_rows.move(into=Moves(here, of_numpy(values), of_numpy(home)))
        piece.write(values)
        # Where nothing has been fetched nothing is written either.
        to = arrays.array(piece.pointer + values.nbytes, "int32", (rows.size,), self._request.gpu)
        to.write(np.where(home < 0, -1, _numbers(rows.cached, rows)).astype(np.int32))
        cache_rows.move(into=Moves(piece, array, None, to))

    def _piece(self, scratch: Optional[Array], rows: Rows) -> Array:
        request, n, words = self._request, rows.size, self.row_bytes // 4
        if scratch is None:
            scratch = request.temporary("uint8", (self.row_bytes + 4) * n)
        return arrays.array(scratch.pointer, "int32", (n, words), request.gpu)


def _numbers(numbers: Any, rows: Rows) -> np.ndarray:
    return np.arange(rows.size, dtype=np.int32) if numbers is None else numbers.read()

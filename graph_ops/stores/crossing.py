"""A batch's rows on their way between a cache and the host's memory, in both directions of the bus at once.

On a GPU what goes is gathered into temporary memory first, so that what comes may take its places; then each launch
writes some of it to the host's memory, and fetches as much of what comes. What goes and what comes are different keys:
neither reads what the other writes. Rows that lie in records move by records, and each variable takes its field from
temporary memory. Both in one launch, for what limits a GPU is how many addresses of the host's memory are translated a
second: two streams, one for each direction, have taken longer than one that does both (benchmarks/GPU_NOTES.md).
"""
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from sok1x.cuda_kernels import arrays, cache_rows
from sok1x.cuda_kernels.arrays import Array
from sok1x.cuda_kernels.cache_rows import Moves
from sok1x.graph_ops.stores.host_column import HostColumn, Rows, by_home

STAGING_BYTES = 256 << 20  # at most, of rows that go: where there are more, the first of them go before the others
PIECE_BYTES = 128 << 20    # at most, of records that come, from when they have been fetched until variables have them
_NOT_FETCHED = ("used",)   # what lookups write anyway

Columns = Dict[str, Tuple[HostColumn, Any]]


def is_staged(request: Any) -> bool:
    """Whether rows that go are gathered first: the host's kernels write one row after the other anyway."""
    return request.gpu is not None


class _Band(NamedTuple):
    """Variables whose rows move together: those of the records, or one.

    Attributes:
      memory: float32 [rows, words] in the host's memory: of a row all of them together.
      words: of a row.
      fields: for each the place among these words, its own words, and the variable's `Array`.
      fetched: whether it comes too.
    """

    memory: Array
    words: int
    fields: List[Tuple[int, int, Array]]
    fetched: bool

    def field(self, staged: Array, number: int) -> Array:
        """One variable's part of rows [n, words] that have been staged."""
        place, words, _ = self.fields[number]
        return Array(staged.pointer + 4 * place, "float32", (staged.shape[0], words), staged.shape[0] * words,
                     staged.gpu, 4 * self.words if words < self.words else 0)


def _bands(tier: Any, columns: Columns) -> List[_Band]:
    found: List[_Band] = []
    in_records = [pair for pair in columns.values() if pair[0].in_record]
    # A field whose variable nobody has reached stays as it is: then the others move by themselves.
    together = len(in_records) > 1 and len(in_records) == tier.fields()
    if together:
        column = in_records[0][0]
        fields = [(each.offset // 4, each.row_bytes // 4, array) for each, array in in_records]
        words = column.stride // 4
        records = arrays.array(column.memory - column.offset, "float32", (column.rows, words))
        found.append(_Band(records, words, fields, True))
    for name, (column, array) in columns.items():
        if not (together and column.in_record):
            words = column.row_bytes // 4
            found.append(_Band(column.array(column.rows).words(), words, [(0, words, array)], name not in _NOT_FETCHED))
    return found


class Crossing:
    """See the module's text. Made while nothing has changed yet, with all memory that it needs but for sorting.

    Args:
      store: a `CachedStore`, whose tier has room for all rows. columns: of all that a row has.
      out: how many rows go. coming: how many come, at most.

    Raises:
      CallError: there is no memory.
    """

    def __init__(self, store: Any, columns: Columns, out: int, coming: int) -> None:
        self._request, self._columns, request = store.request, columns, store.request
        self._limit = columns["rows"][0].rows
        self._bands: List[_Band] = []
        self._left: Optional[Rows] = None  # what has been gathered, and not written
        self._scratch: Optional[Array] = None
        self._done = 0
        if not (is_staged(request) and all(column.reachable for column, _ in columns.values())):
            if request.gpu is not None:
                widest = max(column.row_bytes for column, _ in columns.values())
                self._scratch = request.temporary("uint8", max(out, coming) * (widest + 4))
            return
        self._bands = _bands(store.tier, columns)
        self._part = max(1, min(out, STAGING_BYTES // (4 * sum(band.words for band in self._bands))))
        self._staged: List[Array] = [request.temporary("float32", self._part if out else 0, band.words)
                                     for band in self._bands]
        widest = max(band.words for band in self._bands)
        self._piece_rows = max(1, min(coming, PIECE_BYTES // (4 * widest)))
        has_records = any(len(band.fields) > 1 for band in self._bands)
        self._piece: Optional[Array] = None
        if coming and has_records:
            self._piece = request.temporary("float32", widest * self._piece_rows)
        self._targets: Array = request.temporary("int32", coming)

    def leave(self, rows: Rows) -> None:
        """Takes rows out of the cache, to be written with what `come` fetches; rows: each has a home."""
        rows = by_home(self._request, rows, self._limit)
        if not self._bands:
            for column, array in self._columns.values():
                column.write(array, rows, self._scratch)
            return
        for first in range(0, rows.size, self._part):
            if first:
                self._write(self._part)
            self._gather(rows, first, min(self._part, rows.size - first))

    def _gather(self, rows: Rows, first: int, n: int) -> None:
        self._left, self._done = rows.some(first, n), 0
        for band, staged in zip(self._bands, self._staged):
            for number, (_, _, array) in enumerate(band.fields):
                moves = Moves(array.words(), band.field(staged.front(n), number), self._left.cached)
                cache_rows.move(moves, over_bus=False)

    def _write(self, n: int) -> None:
        for number in range(len(self._bands)):
            cache_rows.move(self._going(number, n))
        self._done += n

    def _going(self, number: int, n: int) -> Optional[Moves]:
        """The next n of the rows that have been gathered, of one band."""
        if self._left is None or not n:
            return None
        return Moves(self._staged[number].some(self._done, n), self._bands[number].memory, None,
                     self._left.home.some(self._done, n))

    def come(self, rows: Optional[Rows]) -> None:
        """Fetches rows, which may take the places of those that have left, or none; and writes what has left."""
        left = 0 if self._left is None else self._left.size
        if rows is None:
            self._write(left - self._done)
            return
        rows = by_home(self._request, rows, self._limit)
        if not self._bands:
            for name, (column, array) in self._columns.items():
                if name not in _NOT_FETCHED:
                    column.read(array, rows, self._scratch)
            return
        # From the piece nothing may be taken where nothing has been fetched.
        cache_rows.pick(rows.home, rows.cached, False, self._targets.front(rows.size))
        for first in range(0, rows.size, self._piece_rows):
            n = min(self._piece_rows, rows.size - first)
            # As large a share of both, so that they end together.
            going = left * (first + n) // rows.size - self._done
            for number, band in enumerate(self._bands):
                self._exchange(band, rows.some(first, n), first, self._going(number, going))
            self._done += going

    def _exchange(self, band: _Band, rows: Rows, first: int, going: Optional[Moves]) -> None:
        n = rows.size
        if not band.fetched:
            cache_rows.move(going)
        elif len(band.fields) == 1:
            cache_rows.move(going, Moves(band.memory, band.fields[0][2].words(), rows.home, rows.cached))
        else:
            assert self._piece is not None
            piece = self._piece.front(n * band.words).as_rows(n, band.words)
            cache_rows.move(going, Moves(band.memory, piece, rows.home))
            for number, (_, _, array) in enumerate(band.fields):
                coming = Moves(band.field(piece, number), array.words(), None, self._targets.some(first, n))
                cache_rows.move(into=coming, over_bus=False)

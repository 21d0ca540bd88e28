"""A batch's rows on their way over the bus of a GPU, in both directions at once, beside the executor's other work.

What goes is gathered into temporary memory first. Then each launch writes some of it to the host's memory and fetches
as much of what comes, also into temporary memory, from which variables take their fields when it is known where.
Launches are in a stream of their own: meanwhile the keys of what goes are taken out of the index, and others put in.
Rows that come lean are on their way before it is known what goes for them, for then it is mostly nothing.

What goes and what comes are different keys: neither reads what the other writes. Rows that lie in records move by
records, and in the order in which they lie in the host's memory. What limits a GPU is how many addresses of it are
translated a second; and a launch for each direction, in two streams, takes longer than one for both, and has every
other kernel wait (benchmarks/GPU_NOTES.md).
"""
from typing import Any, List, NamedTuple, Optional, Tuple

from sok1x.cuda_kernels import arrays, backend, cache_rows, row_numbers
from sok1x.cuda_kernels.arrays import Array
from sok1x.cuda_kernels.cache_rows import Moves
from sok1x.graph_ops.stores.crossing import NUMBERS, Columns, Crossing, is_fetched
from sok1x.graph_ops.stores.host_column import Rows, by_home

STAGING_BYTES = 256 << 20  # at most, of rows that go: where there are more, the first of them go before the others
PIECE_BYTES = 256 << 20    # at most, of rows that come, from when they have been fetched until variables have them


def is_staged(request: Any) -> bool:
    """Whether rows cross by way of the device's memory: the host's kernels write one row after the other anyway."""
    return request.gpu is not None


def make(store: Any, columns: Columns, lean: bool) -> Crossing:
    """The crossing of a request; arguments as of `Crossing`."""
    if is_staged(store.request) and all(column.reachable for column, _ in columns.values()):
        return StagedCrossing(store, columns, lean)
    return Crossing(store, columns, lean)


class _Band(NamedTuple):
    """Variables whose rows move together: those of the records, or one.

    Attributes:
      memory: float32 [rows, words] in the host's memory: of a row all of them together.
      words: of a row.
      fields: for each the place among these words, its own words, and the variable's `Array`.
      fetched, leaves: whether it comes, and whether it goes. numbers: whether it is one of `NUMBERS`.
    """

    memory: Array
    words: int
    fields: List[Tuple[int, int, Array]]
    fetched: bool
    leaves: bool
    numbers: bool

    def field(self, staged: Array, number: int) -> Array:
        """One variable's part of rows [n, words] that have been staged."""
        place, words, _ = self.fields[number]
        return Array(staged.pointer + 4 * place, "float32", (staged.shape[0], words), staged.shape[0] * words,
                     staged.gpu, 4 * self.words if words < self.words else 0)


def _bands(tier: Any, columns: Columns, lean: bool) -> List[_Band]:
    found: List[_Band] = []
    in_records = [pair for pair in columns.values() if pair[0].in_record]
    # A field whose variable nobody has reached stays as it is: then the others move by themselves.
    together = len(in_records) > 1 and len(in_records) == tier.fields()
    if together:
        column = in_records[0][0]
        fields = [(each.offset // 4, each.row_bytes // 4, array) for each, array in in_records]
        words = column.stride // 4
        records = arrays.array(column.memory - column.offset, "float32", (column.rows, words))
        found.append(_Band(records, words, fields, not lean, True, False))
    for name, (column, array) in columns.items():
        fetched, leaves, words = is_fetched(name, lean), not (together and column.in_record), column.row_bytes // 4
        if leaves or lean and fetched:
            found.append(_Band(column.array(column.rows).words(), words, [(0, words, array)], fetched, leaves,
                               name in NUMBERS))
    return found


class StagedCrossing(Crossing):
    """See the module's text, and `Crossing`."""

    def __init__(self, store: Any, columns: Columns, lean: bool) -> None:
        super().__init__(store, columns, lean)
        gpu = self.request.gpu
        self._side = None if gpu is None else gpu.side()
        self._bands = _bands(store.tier, columns, lean)
        self._limit = columns["rows"][0].rows
        # What comes: `places` says which keys of the batch have the homes, None for all in order.
        self._coming = self._piece_rows = 0
        self._homes: Any = None
        self._places: Optional[Array] = None
        self._targets: Any = None
        self._pieces: List[Any] = []  # of each band, None where it is not fetched
        # What goes, of each band: of those that have been gathered, `done` are on their way.
        self._part = 0
        self._going: List[Rows] = []
        self._done: List[int] = []
        self._staged: List[Array] = []

    # ---- what is needed

    def ask(self, homes: Array, known: int) -> None:
        """See `Crossing.ask`."""
        ordered = by_home(self.request, Rows(None, homes), self._limit)
        self._homes, self._places = ordered.home, ordered.cached
        coming = self._coming = homes.size if self._places is None else known  # negative ones have come last
        request = self.request
        words = sum(band.words for band in self._bands if band.fetched)
        self._piece_rows = max(1, min(coming, PIECE_BYTES // (4 * words)))
        self._pieces = [request.temporary("float32", self._piece_rows, band.words) if band.fetched else None
                        for band in self._bands]
        self._targets = request.temporary("int32", coming)
        if self._lean:
            self._launch(0, self._piece_rows, 0)

    def take_room(self, out: int, coming: int) -> None:
        """See `Crossing.take_room`."""
        request = self.request
        self._part = max(1, min(out, STAGING_BYTES // (4 * sum(band.words for band in self._bands if band.leaves))))
        self._staged = [request.temporary("float32", self._part if out and band.leaves else 0, band.words)
                        for band in self._bands]

    # ---- rows that move

    def leave(self, rows: Rows, whole: Rows, written: int) -> None:
        """See `Crossing.leave`: what has been gathered is written by `start` and `come`."""
        values = numbers = by_home(self.request, rows, self._limit)
        if whole is not rows:
            values = by_home(self.request, whole, self._limit)
            if values is not whole:
                values = values.some(0, written)  # negative ones have come last
        for first in range(0, rows.size, self._part):
            if first:
                self._launch(0, 0, self._coming)
                self.end()
            self._going, self._done = [], [0] * len(self._bands)
            for band, staged in zip(self._bands, self._staged):
                some = numbers if band.numbers else values
                going = some.some(first, max(0, min(self._part, some.size - first)) if band.leaves else 0)
                self._going.append(going)
                for number, (_, _, array) in enumerate(band.fields if going.size else ()):
                    moves = Moves(array.words(), band.field(staged.front(going.size), number), going.cached)
                    cache_rows.move(moves, over_bus=False)

    def start(self) -> None:
        """See `Crossing.start`."""
        self._fetch(0)

    def _fetch(self, first: int) -> None:
        """Has the piece of what comes that begins there fetched, if there is one, and as large a share written."""
        n = min(self._piece_rows, self._coming - first)
        self._launch(first, 0 if self._lean and not first else n, first + n)

    def _launch(self, first: int, n: int, fetched: int) -> None:
        """Fetches n rows from `first` on, and writes of those that go the share that goes until `fetched` have come."""
        if self._side is not None:
            self._side.follow()
        with backend.use(self._side):
            for number, band in enumerate(self._bands):
                out = into = None
                if self._going:
                    out = self._moves_out(number, fetched)
                if n and band.fetched:
                    into = Moves(band.memory, self._pieces[number], self._homes.some(first, n))
                if out is not None or into is not None:
                    cache_rows.move(out, into)

    def _moves_out(self, number: int, fetched: int) -> Optional[Moves]:
        """Those of a band that go until so many rows have come."""
        going, done = self._going[number], self._done[number]
        end = going.size * fetched // self._coming if self._coming else going.size
        if end == done:
            return None
        self._done[number] = end
        return Moves(self._staged[number].some(done, end - done), self._bands[number].memory, None,
                     going.home.some(done, end - done))

    def come(self, rows: Array, coming: Rows) -> None:
        """See `Crossing.come`."""
        targets = self._targets
        if self._places is None:
            cache_rows.pick(self._homes, rows, False, targets)
        else:
            row_numbers.look_up(rows, self._places.front(self._coming), targets)
        for first in range(0, self._coming, self._piece_rows):
            if first:
                self._fetch(first)
            self.end()
            n = min(self._piece_rows, self._coming - first)
            for band, piece in zip(self._bands, self._pieces):
                if piece is None:
                    continue
                for number, (_, _, array) in enumerate(band.fields):
                    moves = Moves(band.field(piece.front(n), number), array.words(), None, targets.some(first, n))
                    cache_rows.move(into=moves, over_bus=False)

    def end(self) -> None:
        """See `Crossing.end`."""
        if self._side is not None:
            self._side.lead()

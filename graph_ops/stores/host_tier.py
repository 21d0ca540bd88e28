"""All rows of a table with a cache, in host memory: columns that grow, and rows on their way from and to the cache.

What a GPU cannot reach by itself, because it is not pinned, goes through copies: slower, with the same result.
"""
import os
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

from sok1x.cuda_kernels import backend, cache_rows, gather, row_numbers, sort
from sok1x.cuda_kernels.cache_rows import NOTHING, Moves
from sok1x.graph_ops.bridge import tiers
from sok1x.graph_ops.bridge.bridge import ITEM_BYTES, Array
from sok1x.graph_ops.bridge.errors import RESOURCE_EXHAUSTED, CallError

_GROWS_BY = 4   # a column grows by at least one part in so many
_NO_LIMIT = 2 ** 62
_FEW = 4096     # rows that are on the bus for less time than it takes to sort them
_BESIDE = "/host_rows"  # the tier's name, behind that of the rows
_warned: Dict[str, bool] = {}


class Rows(NamedTuple):
    """Rows that move.

    Attributes:
      cached: int32 [n] `Array`, which rows of the cache; None: rows 0 to n - 1. home: likewise in the host's memory.
        Where a number is negative nothing moves.
    """

    cached: Any
    home: Any


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
    n = _length(rows)
    if request.gpu is None or n <= _FEW:
        return rows
    home, places = request.temporary("int32", n), request.temporary("int32", n)
    sort.order(rows.home.pointer, n, limit, home.pointer, places.pointer)
    if rows.cached is None:
        return Rows(places, home)
    cached = request.temporary("int32", n)
    row_numbers.look_up(rows.cached.pointer, places.pointer, n, cached.pointer)
    return Rows(cached, home)


class HostColumn:
    """What the host's memory has for each row of one variable.

    Attributes:
      name: the variable's. dtype, row_shape: of its rows. row_bytes: of one. value: what new rows begin with.
      rows: how many there is memory for.
    """

    def __init__(self, request: Any, name: str, dtype: str, row_shape: Tuple[int, ...], value: float) -> None:
        self._request, self.name, self.dtype, self.row_shape, self.value = request, name, dtype, row_shape, value
        self.row_bytes = ITEM_BYTES[dtype] * int(np.prod(row_shape, dtype=np.int64))
        self.rows, self._memory, self._pinned = 0, 0, False

    def place(self, column: tiers.Column) -> None:
        """Where it is."""
        self.rows, self._memory = column.bytes // self.row_bytes, column.memory
        self._pinned = column.pinned == column.bytes

    def array(self, rows: int) -> Array:
        """The first rows as an `Array` in the host's memory."""
        size = rows * self.row_bytes // ITEM_BYTES[self.dtype]
        return Array(self._memory, self.dtype, (rows,) + self.row_shape, size)

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
            cache_rows.move(self.row_bytes // 4, Moves(here.pointer, 0, there.pointer, 0, rows))
        else:
            there.write(here.read())
        return there

    @property
    def reachable(self) -> bool:
        """Whether kernels on the request's device read and write it."""
        return self._request.gpu is None or self._pinned

    def move(self, array: Any, out: Optional[Rows], into: Optional[Rows], scratch: Any) -> None:
        """Writes rows of the variable back, and fetches others, which may take their places.

        Args:
          array: the variable's `Array`, in the memory of the request's device.
          out: those that are written back. into: those that are fetched. Distinct rows each.
          scratch: on a GPU a pointer to memory for the more of `out` and `into`, and four bytes more for each row;
            or 0, where none of `into` takes the place of one of `out`, and there may be no memory.
        """
        words = self.row_bytes // 4
        if not self.reachable:
            self._through_copies(array, out, into, scratch)
            return
        going = coming = NOTHING
        if out is not None:
            going = Moves(array.pointer, _pointer(out.cached), self._memory, _pointer(out.home), _length(out))
            if scratch and self._request.gpu is not None and out.cached is not None:
                gather.gather(array.pointer, words, out.cached.pointer, out.cached.size, scratch)
                going = going._replace(source=scratch, from_rows=0)
        if into is not None:
            coming = Moves(self._memory, _pointer(into.home), array.pointer, _pointer(into.cached), _length(into))
        cache_rows.move(words, going, coming)

    def _through_copies(self, array: Any, out: Optional[Rows], into: Optional[Rows], scratch: int) -> None:
        request, words = self._request, self.row_bytes // 4
        most = max(0 if rows is None else _length(rows) for rows in (out, into))
        piece = Array(scratch or request.memory((self.row_bytes + 4) * most), "int32", (), 0, request.gpu)
        if out is not None:
            piece.shape, piece.size = (_length(out), words), _length(out) * words
            cache_rows.move(words, Moves(array.pointer, _pointer(out.cached), piece.pointer, 0, _length(out)))
            values, home = piece.read(), _numbers(out.home, out)
            with backend.use(None):
                cache_rows.move(words, Moves(values.ctypes.data, 0, self._memory, home.ctypes.data, _length(out)))
        if into is not None:
            n = _length(into)
            home, values = _numbers(into.home, into), np.zeros((n, words), np.int32)
            with backend.use(None):
                cache_rows.move(words, Moves(self._memory, home.ctypes.data, values.ctypes.data, 0, n))
            piece.shape, piece.size = values.shape, values.size
            piece.write(values)
            # Where nothing has been fetched nothing is written either.
            rows = Array(piece.pointer + values.nbytes, "int32", (n,), n, request.gpu)
            rows.write(np.where(home < 0, -1, _numbers(into.cached, into)).astype(np.int32))
            cache_rows.move(words, NOTHING, Moves(piece.pointer, 0, array.pointer, rows.pointer, n))


def _pointer(rows: Any) -> int:
    return 0 if rows is None else int(rows.pointer)


def _numbers(numbers: Any, rows: Rows) -> np.ndarray:
    return np.arange(_length(rows), dtype=np.int32) if numbers is None else numbers.read()


def _length(rows: Rows) -> int:
    return int((rows.home if rows.cached is None else rows.cached).size)


class HostTier:
    """A table's columns, for the time of a request.

    Args:
      store: a `CachedStore`, for its table, request and label.
    """

    def __init__(self, store: Any) -> None:
        self._store, self._request = store, store.request
        table = store.table
        self._tier = tiers.Tier(store.request, table.growth.container, table.name + _BESIDE)
        self.columns: Dict[str, HostColumn] = {}

    def take(self, name: str, array: Any, value: float = 0) -> HostColumn:
        """The column of a variable, an `Array` [C, ...] of 4 or 8 bytes a number; it may have no memory yet."""
        if name not in self.columns:
            column = self.columns[name] = HostColumn(self._request, name, array.dtype, tuple(array.shape[1:]), value)
            column.place(self._tier.column(name))
        return self.columns[name]

    def reserve(self, rows: int, given: int) -> None:
        """Has memory for so many rows in all columns that have been taken; it may be more.

        Args:
          given: rows that have been given out: where a column is new, theirs begin with its value.

        Raises:
          CallError: RESOURCE_EXHAUSTED; no row has changed.
        """
        lacking = [column for column in self.columns.values() if column.rows < rows]
        if not lacking:
            return
        most = self._store.table.most_rows
        generous = min(most, max(rows, rows + rows // _GROWS_BY))
        for wanted in (generous, rows):
            more = sum((wanted - column.rows) * column.row_bytes for column in lacking)
            try:
                left = available()
                if more > left:
                    raise OSError("{} bytes of memory are left".format(left))
                for column in lacking:
                    self._grow(column, wanted, given)
                return
            except OSError as error:
                said = error
        raise CallError(RESOURCE_EXHAUSTED, (
            "{} cannot keep more rows in host memory: it has {} and needs {}, of {} bytes each in {} variables ({}), "
            "{} bytes more than the {} that it has there: {}; no row was changed. Leave it more memory, set "
            "max_capacity, train on more ranks, or save the model now and go on elsewhere").format(
                self._store.label, given, rows, sum(column.row_bytes for column in self.columns.values()),
                len(self.columns), ", ".join(sorted(self.columns)), more, self.bytes(), said.strerror or said))

    def _grow(self, column: HostColumn, rows: int, given: int) -> None:
        is_new, limit = not column.rows, self._store.table.cache.pinned
        pin = 0
        if self._request.gpu is not None:
            pin = _NO_LIMIT if limit is None else limit - self._tier.pinned()
        most = min(self._store.table.most_rows * column.row_bytes, _physical())
        made = self._tier.grow(column.name, rows * column.row_bytes, max(most, rows * column.row_bytes), pin)
        column.place(made)
        if self._request.gpu is not None and not column.reachable:
            self._warn(made.pin_error)
        if is_new and column.value:
            column.numpy(given)[...] = column.value

    def _warn(self, error: int) -> None:
        """Once for each table."""
        name, limit = self._store.table.name, self._store.table.cache.pinned
        if not _warned.setdefault(name, False):
            _warned[name] = True
            why = "CUDA's error {}".format(error) if error else "max_pinned_memory is {} bytes".format(limit)
            tf.logging.warning("%s: host memory for its rows could not be pinned (%s): its rows move through copies, "
                               "which is slower", self._store.label, why)

    def drop(self, name: str) -> None:
        """Forgets what a column has: all rows begin with its value again."""
        self._tier.drop(name)
        self.columns.pop(name, None)

    def bytes(self) -> int:
        """Of all columns, also those that have not been taken."""
        return self._tier.bytes()


def forget_slot(request: Any, table: Any, name: str) -> None:
    """A slot, by its variable's name, begins anew."""
    tiers.Tier(request, table.growth.container, table.name + _BESIDE).drop(name)


def _physical() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def available() -> int:
    """Bytes that the system, and the container that the process is in, can still give without swapping."""
    left: List[int] = [_NO_LIMIT]
    with open("/proc/meminfo") as lines:
        left += [1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")]
    for limit, used, stat, files in (
            ("memory.max", "memory.current", "memory.stat", "inactive_file"),
            ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat",
             "total_inactive_file")):
        try:
            with open("/sys/fs/cgroup/" + limit) as a, open("/sys/fs/cgroup/" + used) as b, \
                    open("/sys/fs/cgroup/" + stat) as c:
                most, now = a.read().strip(), int(b.read())
                idle = [int(line.split()[1]) for line in c if line.split()[0] == files]
            if most != "max":
                left.append(int(most) - now + sum(idle))
        except (OSError, ValueError):
            continue
    return max(0, min(left))

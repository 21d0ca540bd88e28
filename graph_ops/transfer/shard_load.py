"""A shard replaced by what a source gives: see `shard_transfer.load`."""
import contextlib

import numpy as np

from sok1x.cuda_kernels import admission, arrays, fill, hash_index, scatter, unique
from sok1x.graph_ops.bridge.errors import INVALID_ARGUMENT, RESOURCE_EXHAUSTED, CallError
from sok1x.graph_ops.stores import growth, step_times
from sok1x.graph_ops.stores.forgetting import SCORES
from sok1x.graph_ops.transfer import shard_parts
from sok1x.graph_ops.transfer.shard_parts import put, put_rows

_KEYS_AT_ONCE = 1 << 20


def replace(store, source):
    """Replaces the shard's content, after a check of what is known before."""
    store = store.whole(replaces=True)
    check_room(store, source.total)
    step_times.begin(store.request, store.table.name)
    fresh = getattr(source, "fresh", None) or {}
    used = store.used() if fresh and store.index is not None else 0
    with ShardWriter(store) as writer:
        for keys, parts in source.chunks():
            writer.append(keys, parts, of_any_rank=getattr(source, "same_ranks", False))
        if writer.written != source.total:
            raise CallError(INVALID_ARGUMENT, "{}: got {} rows to load, expected the {} that were announced".format(
                store.label, writer.written, source.total))
        for part, number in fresh.items():
            writer.begin_anew(part, number, used)
        unused = source.unused()
        for values in () if unused is None else unused:
            writer.append_unused(values)
        counted = getattr(source, "admission", None)
        if store.table.admission is not None and counted is not None:
            writer.admit_as(counted() or ())


def check_room(store, total):
    """Raises where the shard has fewer rows than will come; a table that grows gets as many.

    Raises also where rows after these would have nothing to begin with.
    """
    check_total(store, total)
    if store.table.grows and store.table.by_row:
        growth.expect_start(store)
    if total > store.capacity:
        store.make_room(total)


def check_total(store, total):
    """Raises where the shard cannot have as many rows as will come."""
    table = store.table
    if total > table.most_rows:
        what = "max_capacity" if table.grows else "max_vocabulary_size_per_gpu"
        raise CallError(RESOURCE_EXHAUSTED, (
            "{}: got {} rows to load, expected at most {} ({}); nothing was changed. Raise {}, or load on more ranks"
        ).format(store.label, total, table.most_rows, what, what))


class ShardWriter:
    """Fills a shard from its first row on. A context: it begins with an empty index, and leaves one after an error.

    Rows of a table that grows begin as given once more behind those that it has filled.

    Attributes:
      written: rows that have been appended.
    """

    def __init__(self, store):
        self._store = store
        self._memory = _Memory(store.request)
        self._unused = 0
        self._tick = 0
        self.written = 0

    def __enter__(self):
        self._clear()
        return self

    def __exit__(self, kind, error, trace):
        if kind is None:
            self._count(self.written)
            self._store.loaded(self.written)
            if self._tick:
                self._store.goes_on_after(self._tick)
            if self._store.table.grows and self._store.table.by_row:
                growth.begin_again(self._store, self.written)
        elif self._store.index is not None:
            self._clear()

    def append(self, keys, parts, of_any_rank=False):
        """Adds keys int64 [n] with their rows, {part: array [n, ...]}, NumPy arrays.

        They are this rank's, unless `of_any_rank`: then a table with an index takes others, too, as local lookups do.
        """
        arrays = {part: array for part, array in dict(rows=self._store.rows, **self._store.slots).items()
                  if part in parts or part not in SCORES}
        keys = np.ascontiguousarray(keys, np.int64)
        values = {part: self._checked(part, array, parts.get(part), len(keys)) for part, array in arrays.items()}
        self._check_keys(keys, of_any_rank and self._store.table.hashed)
        for begin in range(0, len(keys), _KEYS_AT_ONCE):
            piece = slice(begin, begin + _KEYS_AT_ONCE)
            with self._memory.used_again():
                place = self._place(keys[piece])
                for part, array in arrays.items():
                    place(values[part][piece], array)
            self.written += len(keys[piece])

    def enter(self, keys):
        """Gives keys int64 [n] of this rank the next rows, which the caller fills. Without a hash table they must be
        the keys that have these rows."""
        self._check_keys(keys)
        for begin in range(0, len(keys), _KEYS_AT_ONCE):
            piece = keys[begin:begin + _KEYS_AT_ONCE]
            if self._store.index is not None:
                with self._memory.used_again():
                    self._insert(piece)
            self.written += len(piece)

    def begin_anew(self, part, number, end):
        """Overwrites a part of the rows behind those that have been appended, up to row `end`, with a number."""
        array = self._store.slots[part]
        at_once = max(1, min(shard_parts.CHUNK_BYTES // array.row_bytes, end - self.written))
        values = np.full((at_once,) + array.shape[1:], number, array.dtype)
        for first in range(self.written, end, at_once):
            put_rows(values[:end - first], array, first)

    def append_unused(self, values):
        """Overwrites rows not in use, the first one first, with float32 [n, D]."""
        rows = self._store.rows
        values = self._checked("unused", rows, values, len(values))
        first = self.written + self._unused
        self._check_rows(first + len(values))
        put_rows(values, rows, first)
        self._unused += len(values)

    def admit_as(self, chunks):
        """Has keys be counted and drawn as it goes on from int64 chunks: a tick, and the sketch if there is one."""
        words = [array for name, array in self._store.own.items() if name == "sketch"]
        done, expected = 0, 1 + sum(array.size for array in words)
        for values in chunks:
            values = np.ascontiguousarray(values, np.int64)
            done += len(values)
            if done > expected:
                break
            if done == len(values):
                self._tick, values = int(values[0]), values[1:]
            for array in words if len(values) else ():
                put_rows(values, array, done - 1 - len(values))
        if done not in (0, expected):
            raise CallError(INVALID_ARGUMENT, "{}: got {} or more rows to load, expected {}, of 'admission'".format(
                self._store.label, done, expected))
        for array in words if done else ():  # made of several ranks' counters it may be too full
            forgetting = self._store.table.forgetting
            admission.halve_if_due(array, forgetting.sketch_width, forgetting.admit_after)

    def _place(self, keys):
        """Gives keys their rows: a function that writes values [n, ...] into the rows of an `Array`."""
        if self._store.index is not None:
            self._insert(keys)
            first = self.written
            return lambda values, array: put_rows(values, array, first)
        table, world = self._store.table, self._store.world
        rows = table.placement.rows(keys, world.size).astype(np.int32)
        if len(rows) == int(rows[-1]) - int(rows[0]) + 1 and (np.diff(rows) == 1).all():
            first = int(rows[0])
            return lambda values, array: put_rows(values, array, first)
        there = self._memory.filled(rows)
        return lambda values, array: scatter.scatter(self._memory.filled(values).words(), there, array.words())

    def _insert(self, keys):
        """Enters distinct keys that are not in the index yet, with the next rows."""
        index, n = self._store.index, len(keys)
        there = self._memory.filled(keys)
        rows = self._memory.array("int32", n)
        if self._distinct(there) == n == hash_index.find(index, there, rows):
            if hash_index.insert(index, there, rows, self.written) == n:
                return
        raise CallError(INVALID_ARGUMENT, "{}: got a key twice among the {} that end with row {}, expected every key "
                                          "once".format(self._store.label, n, self.written + n))

    def _distinct(self, keys):
        """How many of the keys are distinct; on the host `insert` finds out itself."""
        n, new = keys.size, self._memory.array
        if self._store.request.gpu is None:
            return n
        return unique.unique(keys, new("int64", n), new("int32", n), new("uint8", unique.scratch_bytes(n)))

    def _check_keys(self, keys, of_any_rank=False):
        """Raises where a key is not this rank's, or too many come."""
        table, world = self._store.table, self._store.world
        owners = table.placement.owners(keys, world.size)
        wrong = np.flatnonzero(owners != world.rank)
        if wrong.size and not of_any_rank:
            raise CallError(INVALID_ARGUMENT, "{}: got key {} to load, which belongs to rank {} of {}".format(
                self._store.label, keys[wrong[0]], owners[wrong[0]], world.size))
        self._check_rows(self.written + len(keys))
        if not table.hashed and len(keys):
            limit = table.total(world.size)
            if keys.min() < 0 or keys.max() >= limit:
                raise CallError(INVALID_ARGUMENT, "{}: got key {} to load, expected keys in {}".format(
                    self._store.label, keys[(keys < 0) | (keys >= limit)][0], table.expected_keys(world.size)))

    def _check_rows(self, end):
        if end > self._store.capacity:
            raise CallError(RESOURCE_EXHAUSTED, "{}: got {} rows to load, expected at most {}".format(
                self._store.label, end, self._store.capacity))

    def _checked(self, part, array, values, n):
        """The values of a part, contiguous, if they fit the variable."""
        expected = (n,) + array.shape[1:]
        if values is None or values.dtype.name != array.dtype or values.shape != expected:
            got = "nothing" if values is None else "{} {}".format(values.dtype.name, list(values.shape))
            raise CallError(INVALID_ARGUMENT, "{}: got {} for '{}', expected {} {}".format(
                self._store.label, got, part, array.dtype, list(expected)))
        return np.ascontiguousarray(values)

    def _clear(self):
        if self._store.index is not None:
            hash_index.clear(self._store.index)
            self._count(0)
            self._store.begin_again()

    def _count(self, used):
        if self._store.count is not None:
            fill.fill_int64(self._store.count, used)


class _Memory:
    """A request's temporary memory that many chunks in turn use again, kernels on a GPU for their own needs too.

    A stream does one thing after the other, so what a chunk has left in the memory may be overwritten by the next.
    """

    def __init__(self, request):
        self._request = request
        self._blocks = []
        self._taken = 0

    @contextlib.contextmanager
    def used_again(self):
        """Inside, memory is taken; at the end all of it is free for the next such block."""
        gpu, self._taken = self._request.gpu, 0
        if gpu is None:
            yield
            return
        before, gpu.allocate = gpu.allocate, self.take
        try:
            yield
        finally:
            gpu.allocate = before

    def take(self, nbytes):
        """A pointer to memory of the request's device. What is taken as the i-th uses the i-th block."""
        if self._taken == len(self._blocks):
            self._blocks.append(self._request.temporary("uint8", nbytes))
        elif self._blocks[self._taken].size < nbytes:
            self._blocks[self._taken] = self._request.temporary("uint8", nbytes)
        self._taken += 1
        return self._blocks[self._taken - 1].pointer

    def array(self, dtype, *shape):
        """An `Array` in memory that `take` gives."""
        made = arrays.array(0, dtype, shape, self._request.gpu)
        return made._replace(pointer=self.take(made.nbytes))

    def filled(self, values):
        """A contiguous NumPy array's values: on the CPU the array itself."""
        if self._request.gpu is None:
            return arrays.of_numpy(values)
        made = self.array(values.dtype.name, *values.shape)
        put(values, made)
        return made

"""A shard's rows in use, in their order: all from the first on, or, where a table forgets, those that are not free."""
from sok1x.cuda_kernels import cache_rows, gather, stamps
from sok1x.graph_ops.transfer.shard_parts import CHUNK_BYTES, host_chunks

# Each time that keys are asked for, the whole index is read: so they are asked for many at a time, 64 MB of them.
_KEYS_AT_ONCE = 8 << 20


class UsedRows:
    """See the module's text. A table that forgets takes 12 bytes of temporary memory a row, and what pieces take.

    Attributes:
      count: how many there are.
    """

    def __init__(self, store):
        self._store = store
        self._rows, self.count, self._places = store.rows_in_use() or (None, store.used(), None)

    def keys(self):
        """Their keys, as int64 arrays in host memory: each to be done with before the next."""
        store = self._store
        if self._rows is not None:
            every = store.request.temporary("int64", self.count)
            stamps.numbered_keys(store.index, self._places, every)
            yield from host_chunks(every, 0, self.count)
            return
        buffer = store.request.temporary("int64", min(self.count, _KEYS_AT_ONCE))
        for first in range(0, self.count, _KEYS_AT_ONCE):
            n = min(_KEYS_AT_ONCE, self.count - first)
            store.write_keys(first, n, buffer)
            yield from host_chunks(buffer, 0, n)

    def values(self, array):
        """Their rows in an `Array` [V, ...], as `host_chunks` gives them."""
        if self._rows is None:
            yield from host_chunks(array, 0, self.count)
            return
        at_once = max(1, CHUNK_BYTES // array.row_bytes)
        if array.gpu is None and self._store.request.gpu is not None:
            rows, every = self._rows.read()[:self.count], array.numpy()
            for first in range(0, self.count, at_once):
                yield every[rows[first:first + at_once]]
            return
        piece = self._store.request.temporary(array.dtype, min(at_once, self.count), *array.shape[1:])
        for first in range(0, self.count, at_once):
            n = min(at_once, self.count - first)
            rows, out = self._rows.some(first, n), piece.front(n)
            if array.stride:
                cache_rows.move(cache_rows.Moves(array, out, rows))
            else:
                gather.gather(array.words(), rows, out.words())
            yield from host_chunks(out, 0, n)

"""A shard's rows, and what lies beside them, by pieces: copies between them and the host's memory."""
import numpy as np

from sok1x.cuda_kernels import backend, cache_rows, dense
from sok1x.graph_ops.bridge.bridge import ITEM_BYTES, Array

CHUNK_BYTES = 16 << 20


def row_bytes(array):
    """Bytes of one row of an `Array` [n, ...]."""
    items = 1
    for length in array.shape[1:]:
        items *= length
    return items * ITEM_BYTES[array.dtype]


def some_rows(array, first, n):
    """Rows first to first + n - 1 of an `Array`, in place."""
    shape = (n,) + array.shape[1:]
    size = array.size // array.shape[0] * n if n else 0
    return Array(row_at(array, first), array.dtype, shape, size, array.gpu, array.stride)


def row_at(array, row):
    """A pointer to a row of an `Array` [n, ...]."""
    return array.pointer + row * (array.stride or row_bytes(array))


def host_chunks(array, first, end):
    """Rows first to end - 1 of an `Array` in turn, as NumPy arrays of about CHUNK_BYTES.

    In the host's memory they are the rows themselves, or copies where other things lie between them; a GPU's are
    copied into one and the same piece of pinned memory, so each must be done with before the next.
    """
    at_once = max(1, CHUNK_BYTES // row_bytes(array))
    staging = None
    for begin in range(first, end, at_once):
        rows = some_rows(array, begin, min(at_once, end - begin))
        if array.gpu is None:
            yield np.ascontiguousarray(rows.numpy())
            continue
        nbytes = rows.size * ITEM_BYTES[rows.dtype]
        if staging is None:
            staging = array.gpu.pinned(nbytes)
        array.gpu.to_host(staging.ctypes.data, rows.pointer, nbytes)
        yield staging[:nbytes].view(rows.dtype).reshape(rows.shape)


def put_rows(values, array, first):
    """Overwrites rows of an `Array`, from `first` on, with those of a contiguous NumPy array of its dtype."""
    if not array.stride:
        put(values, row_at(array, first), array.gpu)
        return
    with backend.use(None):
        moves = cache_rows.Moves(values.ctypes.data, 0, row_at(array, first), 0, len(values), 0, array.stride // 4)
        cache_rows.move(row_bytes(array) // 4, moves)


def put(values, pointer, gpu):
    """Copies a contiguous NumPy array to `pointer`, in the memory of `gpu` or, where that is None, the host's."""
    if gpu is None:
        with backend.use(None):
            dense.copy(values.ctypes.data, values.nbytes, pointer)
    else:
        gpu.to_device(pointer, values.ctypes.data, values.nbytes)

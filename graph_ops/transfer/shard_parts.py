"""A shard's rows, and what lies beside them, by pieces: copies between them and the host's memory."""
import numpy as np

from sok1x.cuda_kernels import backend, cache_rows, dense
from sok1x.cuda_kernels.arrays import of_numpy

CHUNK_BYTES = 16 << 20


def host_chunks(array, first, end):
    """Rows first to end - 1 of an `Array` in turn, as NumPy arrays of about CHUNK_BYTES.

    In the host's memory they are the rows themselves, or copies where other things lie between them; a GPU's are
    copied into one and the same piece of pinned memory, so each must be done with before the next.
    """
    at_once = max(1, CHUNK_BYTES // array.row_bytes)
    staging = None
    for begin in range(first, end, at_once):
        rows = array.some(begin, min(at_once, end - begin))
        if array.gpu is None:
            yield np.ascontiguousarray(rows.numpy())
            continue
        nbytes = rows.nbytes
        if staging is None:
            staging = array.gpu.pinned(nbytes)
        array.gpu.to_host(staging.ctypes.data, rows.pointer, nbytes)
        yield staging[:nbytes].view(rows.dtype).reshape(rows.shape)


def put_rows(values, array, first):
    """Overwrites rows of an `Array`, from `first` on, with those of a contiguous NumPy array of its dtype."""
    rows = array.some(first, len(values))
    if not array.stride:
        put(values, rows)
        return
    with backend.use(None):
        cache_rows.move(cache_rows.Moves(of_numpy(values), rows))


def put(values, array):
    """Copies a contiguous NumPy array to an `Array` of its dtype and size."""
    if array.gpu is None:
        with backend.use(None):
            dense.copy(of_numpy(values), array)
    else:
        array.gpu.to_device(array.pointer, values.ctypes.data, values.nbytes)

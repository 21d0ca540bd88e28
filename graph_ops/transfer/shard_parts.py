"""A table's shard as its parts: the variables of one request, and copies between them and the host's memory."""
from sok1x.cuda_kernels import dense
from sok1x.graph_ops.bridge.bridge import ITEM_BYTES, Array
from sok1x.graph_ops.bridge.errors import INTERNAL, CallError
from sok1x.graph_ops.stores.shard import COUNT, INDEX

CHUNK_BYTES = 16 << 20


def own_handles(table):
    """Handles of the variables that every table has: its rows and, with a hash table, index and count."""
    return table.handles[:_own_variables(table)]


def _own_variables(table):
    return 3 if table.use_hashtable else 1


class Shard:
    """A table's variables while a request has them locked.

    Attributes:
      request, table, world: of the operation that runs.
      rows, index, count: `Array`s; the last two None without a hash table.
      parts: {name: `Array`} of the variables besides.
    """

    def __init__(self, request, table, world, variables, names=()):
        self.request, self.table, self.world = request, table, world
        self.rows = variables[0]
        self.index = variables[INDEX] if table.use_hashtable else None
        self.count = variables[COUNT] if table.use_hashtable else None
        self.parts = dict(zip(names, variables[_own_variables(table):]))

    @property
    def label(self):
        """The table and the rank, as errors name them."""
        return "embedding table '{}' on rank {}".format(self.table.name, self.world.rank)

    def used(self):
        """How many rows, from the first, belong to keys."""
        if self.count is None:
            return self.table.rows
        used = int(self.count.read())
        if not 0 <= used <= self.table.rows:
            raise CallError(INTERNAL, "{}: its count says that {} rows are in use, expected a number in [0, {}]".format(
                self.label, used, self.table.rows))
        return used


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
    return Array(array.pointer + first * row_bytes(array), array.dtype, shape, size, array.gpu)


def host_chunks(array, first, end):
    """Rows first to end - 1 of an `Array` in turn, as NumPy arrays of about CHUNK_BYTES.

    In the host's memory they are the rows themselves; a GPU's are copied into one and the same piece of pinned memory,
    so each must be done with before the next.
    """
    at_once = max(1, CHUNK_BYTES // row_bytes(array))
    staging = None
    for begin in range(first, end, at_once):
        rows = some_rows(array, begin, min(at_once, end - begin))
        if array.gpu is None:
            yield rows.numpy()
            continue
        nbytes = rows.size * ITEM_BYTES[rows.dtype]
        if staging is None:
            staging = array.gpu.pinned(nbytes)
        array.gpu.to_host(staging.ctypes.data, rows.pointer, nbytes)
        yield staging[:nbytes].view(rows.dtype).reshape(rows.shape)


def put(values, pointer, gpu):
    """Copies a contiguous NumPy array to `pointer`, in the memory of `gpu` or, where that is None, the host's."""
    if gpu is None:
        dense.copy(values.ctypes.data, values.nbytes, pointer)
    else:
        gpu.to_device(pointer, values.ctypes.data, values.nbytes)

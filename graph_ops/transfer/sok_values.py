"""A table of all ranks loaded from tensors: row i is the row of key i."""
import numpy as np

from sok1x.cuda_kernels import dense, gather
from sok1x.graph_ops.bridge import library
from sok1x.graph_ops.bridge.agreed import agreed
from sok1x.graph_ops.bridge.errors import INVALID_ARGUMENT, CallError
from sok1x.graph_ops.bridge.registry import Operation, register
from sok1x.graph_ops.transfer.shard_load import ShardWriter
from sok1x.graph_ops.transfer.shard_parts import Shard, own_handles, row_bytes, some_rows

_ROWS_AT_ONCE = 1 << 20


@register
class _LoadValues(Operation):
    """inputs: float32 [rows, D] each, in key order. No output. The resources are the table's own.

    The headers are the number of rows of all inputs.
    """

    name = "transfer.sok_values.load"
    communicates = True

    def prepare(self, request, config, world):
        table = config["table"]
        with request.variables(table.name, exclusive=False):
            pass  # they have been initialized
        for place, array in enumerate(request.inputs):
            if len(array.shape) != 2 or array.shape[1] != table.dim:
                raise CallError(INVALID_ARGUMENT, (
                    "embedding table '{}' on rank {}: got values of shape {} at position {} of the tensors, expected "
                    "[rows, {}]").format(table.name, world.rank, list(array.shape), place, table.dim))
        rows = sum(array.shape[0] for array in request.inputs)
        if rows > table.rows * world.size:
            raise CallError(INVALID_ARGUMENT, (
                "embedding table '{}' on rank {}: got {} rows of values, expected at most {} "
                "(max_vocabulary_size_per_gpu {} x {} ranks); raise max_vocabulary_size_per_gpu").format(
                    table.name, world.rank, rows, table.rows * world.size, table.rows, world.size))
        return np.array([rows], np.int64)

    def run(self, request, config, world, headers):
        table = config["table"]
        if (headers != headers[0]).any():
            raise CallError(INVALID_ARGUMENT, (
                "embedding table '{}': got {} rows of values on the ranks in turn, expected the same values on all "
                "ranks").format(table.name, headers[:, 0].tolist()), agreed=True)
        with request.variables(table.name, exclusive=True) as variables:
            shard = Shard(request, table, world, variables)
            agreed(world, lambda: _load(shard, request.inputs))


def _load(shard, inputs):
    """Copies this rank's rows of the inputs: its j-th key, j * N + rank, has row j, with and without a hash table."""
    ranks, rank = shard.world.size, shard.world.rank
    every = _EveryRow(shard, ranks)
    with ShardWriter(shard) as writer:
        first_key = 0
        for array in inputs:
            rows = array.shape[0]
            # The first row of the input whose key is this rank's; from there on every N-th is.
            begin = (rank - first_key) % ranks
            mine = max(0, -(-(rows - begin) // ranks))
            for done in range(0, mine, _ROWS_AT_ONCE):
                n = min(_ROWS_AT_ONCE, mine - done)
                place = begin + done * ranks
                every.copy(some_rows(array, place, rows - place), n, some_rows(shard.rows, writer.written, n))
                writer.enter(first_key + place + ranks * np.arange(n))
            first_key += rows


class _EveryRow:
    """Copies every N-th row of an array, on the request's device."""

    def __init__(self, shard, ranks):
        self._shard, self._ranks = shard, ranks
        self._index = None

    def copy(self, source, n, out):
        """Copies rows 0, N, 2 N, ... of source to the n rows of out; n is at most _ROWS_AT_ONCE."""
        if self._ranks == 1:
            dense.copy(source.pointer, n * row_bytes(source), out.pointer)
            return
        if self._index is None:
            at_once = min(_ROWS_AT_ONCE, self._shard.table.rows)
            self._index = self._shard.request.temporary("int32", at_once)
            self._index.write(self._ranks * np.arange(at_once))
        gather.gather(source.pointer, self._shard.table.dim, self._index.pointer, n, out.pointer)


def load_values(table, tensors, name="load_embedding_values"):
    """An op that replaces rows of all ranks by those of tensors, and with a hash table all of its content.

    Args:
      table: a `Table` with handles. tensors: list of float32 [rows, D], which follow each other in key order.
    """
    return library.call("transfer.sok_values.load", {"table": table.config(), "label": "{} from {} tensors".format(
        table.label(), len(tensors))}, tensors, [], [], resources=own_handles(table), name=name)

"""A table of all ranks loaded from tensors: row i is the row of key i."""
from typing import NamedTuple

import numpy as np

from sok1x.cuda_kernels import dense, gather
from sok1x.graph_ops.bridge import library
from sok1x.graph_ops.bridge.agreed import agreed
from sok1x.graph_ops.bridge.errors import INVALID_ARGUMENT, CallError
from sok1x.graph_ops.bridge.registry import Operation, register
from sok1x.graph_ops.stores import step_times
from sok1x.graph_ops.stores.store import request_store
from sok1x.graph_ops.stores.table import Table
from sok1x.graph_ops.stores.table_variables import Held
from sok1x.graph_ops.transfer.shard_load import ShardWriter, check_room

_ROWS_AT_ONCE = 1 << 20


class ValuesConfig(NamedTuple):
    """Attributes:
      table, held: the table, and its content.
      label: what must be equal on all ranks."""

    table: Table
    held: Held
    label: str


@register
class _LoadValues(Operation):
    """inputs: float32 [rows, D] each, in key order. No output.

    The headers are the number of rows of all inputs.
    """

    name = "transfer.sok_values.load"
    Config = ValuesConfig
    communicates = True

    def prepare(self, request, config, world):
        table = config.table
        with request_store(request, config, world, exclusive=False):
            pass  # they have been initialized
        for place, array in enumerate(request.inputs):
            if len(array.shape) != 2 or array.shape[1] != table.dim:
                raise CallError(INVALID_ARGUMENT, (
                    "embedding table '{}' on {}: got values of shape {} at position {} of the tensors, expected "
                    "[rows, {}]").format(table.name, world.name, list(array.shape), place, table.dim))
        rows = sum(array.shape[0] for array in request.inputs)
        most = table.most_rows * table.placement.parts(world.size) if table.grows else table.total(world.size)
        if rows > most:
            raise CallError(INVALID_ARGUMENT, (
                "embedding table '{}' on {}: got {} rows of values, expected at most {} {}").format(
                    table.name, world.name, rows, most, _of(table, world.size)))
        return np.array([rows], np.int64)

    def run(self, request, config, world, headers):
        table = config.table
        if (headers != headers[0]).any():
            raise CallError(INVALID_ARGUMENT, (
                "embedding table '{}': got {} rows of values on the ranks in turn, expected the same values on all "
                "ranks").format(table.name, headers[:, 0].tolist()), agreed=True)
        with request_store(request, config, world, exclusive=True) as store:
            agreed(world, lambda: _load(store.whole(replaces=True), request.inputs))


def _of(table, ranks):
    """What the number of rows of all ranks is made of, for messages."""
    if table.keys is not None:
        return "(the variable's rows)"
    what = "max_capacity" if table.grows else "max_vocabulary_size_per_gpu"
    return "({} {} x {} ranks); raise {}".format(what, table.most_rows, ranks, what)


def _load(store, inputs):
    """Copies this rank's rows of the inputs: its j-th key, j * N + rank, has row j, with and without a hash table.

    N and rank are those of the table's placement; a rank that has no keys copies nothing.
    """
    placement = store.table.placement
    if not placement.has_keys(store.world.rank):
        return
    ranks, rank = placement.parts(store.world.size), store.world.rank - placement.first
    total = sum(array.shape[0] for array in inputs)
    check_room(store, max(0, -(-(total - rank) // ranks)))
    step_times.begin(store.request, store.table.name)
    every = _EveryRow(store, ranks)
    with ShardWriter(store) as writer:
        first_key = 0
        for array in inputs:
            rows = array.shape[0]
            # The first row of the input whose key is this rank's; from there on every N-th is.
            begin = (rank - first_key) % ranks
            mine = max(0, -(-(rows - begin) // ranks))
            for done in range(0, mine, _ROWS_AT_ONCE):
                n = min(_ROWS_AT_ONCE, mine - done)
                place = begin + done * ranks
                every.copy(array.some(place, rows - place), n, store.rows.some(writer.written, n))
                writer.enter(first_key + place + ranks * np.arange(n))
            first_key += rows


class _EveryRow:
    """Copies every N-th row of an array, on the request's device."""

    def __init__(self, store, ranks):
        self._store, self._ranks = store, ranks
        self._index = None

    def copy(self, source, n, out):
        """Copies rows 0, N, 2 N, ... of source to the n rows of out; n is at most _ROWS_AT_ONCE."""
        adjacent = source.gpu is out.gpu and not out.stride
        if self._ranks == 1 and adjacent:
            dense.copy(source.front(n), out)
            return
        if self._index is None:
            at_once = min(_ROWS_AT_ONCE, self._store.capacity)
            self._index = self._store.request.temporary("int32", at_once)
            self._index.write(self._ranks * np.arange(at_once))
        if adjacent:
            gather.gather(source, self._index.front(n), out)
            return
        piece = self._store.request.temporary("float32", n, self._store.table.dim)
        gather.gather(source, self._index.front(n), piece)
        out.numpy()[...] = piece.read()


def load_values(variables, tensors, name="load_embedding_values"):
    """An op that replaces rows of all ranks by those of tensors, and with a hash table all of its content.

    Args:
      variables: the table's `TableVariables`. tensors: list of float32 [rows, D], which follow each other in key order.
    """
    held, handles = variables.resources(*variables.content)
    label = "{} from {} tensors".format(variables.table.label(), len(tensors))
    return library.call("transfer.sok_values.load", ValuesConfig(variables.table, held, label), tensors, [], [],
                        resources=handles, name=name)

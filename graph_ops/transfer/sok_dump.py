"""A table of all ranks dumped to SOK's files."""
import os

import numpy as np

from sok1x.graph_ops.bridge import library
from sok1x.graph_ops.bridge.agreed import agreed
from sok1x.graph_ops.bridge.errors import FAILED_PRECONDITION, CallError
from sok1x.graph_ops.bridge.registry import Operation, register
from sok1x.graph_ops.stores.store import request_store
from sok1x.graph_ops.transfer import sok_files
from sok1x.graph_ops.transfer.sok_written import WrittenFiles
from sok1x.graph_ops.transfer.used_rows import UsedRows

_BUFFER_BYTES = 16 << 20


@register
class _Dump(Operation):
    """No output. The headers are a number that rank 0 has drawn."""

    name = "transfer.sok_dump.dump"
    Config = sok_files.FilesConfig
    communicates = True

    def prepare(self, request, config, world):
        table = config.table
        with request_store(request, config, world, exclusive=False):
            pass  # they have been initialized
        if world.rank:
            return np.zeros(1, np.int64)
        folder = os.path.dirname(sok_files.paths(config.folder, table.kit_name)[0])  # a scope's name is one below
        with sok_files.errors("embedding table '{}' on rank 0".format(table.name), folder):
            os.makedirs(folder or ".", exist_ok=True)
        return np.array([int.from_bytes(os.urandom(7), "little")], np.int64)

    def run(self, request, config, world, headers):
        with request_store(request, config, world, exclusive=False) as held:
            used, stores = np.zeros(1, np.int64), []

            def look():
                stores.append(held.whole())
                used.fill(stores[0].in_use())

            agreed(world, look)
            counts = world.communicator.exchange_counts(used.repeat(world.size))
            _dump(stores[0], counts, WrittenFiles(stores[0], config.folder, int(headers[0, 0])))


def _dump(store, counts, files):
    """Writes beside the files, which get their names when all ranks are done.

    Args:
      counts: int64 [N], rows in use.
    """
    world, table = store.world, store.table
    rows = int(counts.sum())
    sizes = rows * sok_files.key_dtype(table).itemsize, rows * 4 * table.dim
    try:
        agreed(world, lambda: files.create(sizes))
        agreed(world, lambda: files.open(sizes))
        if table.hashed or world.size == 1 or table.keys is not None:  # then V is another on each rank
            agreed(world, lambda: _write_rows(store, int(counts[:world.rank].sum()), files))
        else:
            _write_in_key_order(store, files)
        agreed(world, files.publish)
    finally:
        files.close()


def _write_rows(store, before, files):
    """Writes this rank's rows in row order, behind those of the ranks before it.

    Keys of other ranks are an error: there they may have rows too, and which is right no restore could tell.
    """
    dtype, place, world, strays = sok_files.key_dtype(store.table), before, store.world, 0
    rows = UsedRows(store)
    for keys in rows.keys():
        strays += np.count_nonzero(store.table.placement.owners(keys, world.size) != world.rank)
        files.keys.write(place * dtype.itemsize, keys.astype(dtype, copy=False))
        place += len(keys)
    if strays:
        raise CallError(FAILED_PRECONDITION, (
            "{}: got {} keys on rank {} that belong to other ranks (tf.nn.embedding_lookup gives keys rows on the rank "
            "that looks them up), expected none: in these files each key has one row. Save the table with "
            "sok.CheckpointManager, or look it up by sok.lookup_sparse").format(store.label, strays, world.rank))
    place = before
    for values in rows.values(store.rows):
        files.values.write(place * 4 * store.table.dim, values)
        place += len(values)
    files.sync()


def _write_in_key_order(store, files):
    """Writes the rows of a table without index: row i of rank r is that of key i * N + r.

    In each round every rank writes a piece of the file, for which all give it some rows in turn.
    """
    world, dim = store.world, store.table.dim
    buffers = []
    agreed(world, lambda: buffers.append(_Buffers(store, files)))
    buffer, failed = buffers[0], None
    for first, gives, begin, takes in buffer.rounds:
        # A rank that has failed goes on exchanging, whatever it has to give: the others still wait for its rows. Only
        # then does it say so.
        try:
            if failed is None:
                buffer.fetch(first, gives)
        except Exception as error:  # whatever it is, the other ranks must hear of it
            failed = error
        world.communicator.all_to_all(buffer.outgoing, gives, buffer.incoming, takes, 4 * dim)
        try:
            if failed is None:
                buffer.write(begin, int(takes[0]))
        except Exception as error:
            failed = error

    def end():
        if failed is not None:
            raise failed
        files.sync()

    agreed(world, end)


class _Buffers:
    """Host memory for the rounds of `_write_in_key_order`, all of it taken before the first one.

    Attributes:
      rounds: for each, the first row that this rank gives, how many to each rank (int64 [N]), the first row of all
        ranks that it writes, and how many it takes from each (int64 [N]).
      outgoing: pointer to the rows that this rank gives in a round. incoming: pointer for those that it is given.
    """

    def __init__(self, store, files):
        self._store, self._files = store, files
        self._dtype = sok_files.key_dtype(store.table)
        ranks, rank, rows, dim = store.world.size, store.world.rank, store.table.rows, store.table.dim
        # Rows that a rank gives another in a round.
        at_once = max(1, min(_BUFFER_BYTES // (4 * dim * ranks), -(-rows // ranks)))
        self.rounds = []
        for first in range(0, rows, ranks * at_once):
            begins = np.minimum(first + at_once * np.arange(ranks + 1), rows)
            gives = np.diff(begins)
            self.rounds.append((first, gives, int(begins[rank]), np.full(ranks, gives[rank], np.int64)))
        self._received = np.empty([ranks * at_once * dim], np.float32)
        self.incoming = self._received.ctypes.data
        self._staging = None if store.rows.gpu is None else store.rows.gpu.pinned(self._received.nbytes)
        self.outgoing = store.rows.pointer if self._staging is None else self._staging.ctypes.data

    def fetch(self, first, gives):
        """Makes `outgoing` point to the rows that are given: the rows themselves, or a copy of those of a GPU."""
        nbytes = 4 * self._store.table.dim
        pointer = self._store.rows.pointer + first * nbytes
        if self._staging is None:
            self.outgoing = pointer
        else:
            self._store.rows.gpu.to_host(self.outgoing, pointer, int(gives.sum()) * nbytes)

    def write(self, begin, mine):
        """Writes the piece of the file that has rows begin to begin + mine - 1 of all ranks."""
        ranks, dim, dtype = self._store.world.size, self._store.table.dim, self._dtype
        by_rank = self._received[:ranks * mine * dim].reshape(ranks, mine, dim)
        self._files.values.write(begin * ranks * 4 * dim, np.ascontiguousarray(by_rank.transpose(1, 0, 2)))
        keys = np.arange(begin * ranks, (begin + mine) * ranks, dtype=dtype)
        self._files.keys.write(begin * ranks * dtype.itemsize, keys)


def dump(variables, folder, name="dump_to_file"):
    """An op that writes the table of all ranks to SOK's files; see `sok_files`.

    Args:
      variables: the table's `TableVariables`. folder: a path; made where it is missing.
    """
    held, handles = variables.resources(*variables.content)
    label = "{} to '{}'".format(variables.table.label(), folder)
    return library.call("transfer.sok_dump.dump", sok_files.FilesConfig(variables.table, held, label, folder), [], [],
                        [], resources=handles, name=name)

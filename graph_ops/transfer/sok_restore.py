"""A table of all ranks restored from SOK's files, whatever number of ranks has written them."""
import numpy as np

from sok1x.graph_ops.bridge import library
from sok1x.graph_ops.bridge.agreed import agreed
from sok1x.graph_ops.bridge.errors import FAILED_PRECONDITION, INVALID_ARGUMENT, CallError
from sok1x.graph_ops.bridge.registry import Operation, register
from sok1x.graph_ops.stores.store import request_store
from sok1x.graph_ops.transfer import distinct_keys, shard_load, sok_files

_KEYS_AT_ONCE = 1 << 19
_BUFFER_BYTES = 16 << 20

_RANGES = {"uint32": (0, 2 ** 32), "int32": (-2 ** 31, 2 ** 31)}


@register
class _Restore(Operation):
    """No output. The headers are the files' rows, the bytes of a key, and when keys and values were written."""

    name = "transfer.sok_restore.restore"
    Config = sok_files.FilesConfig
    communicates = True

    def prepare(self, request, config, world):
        table = config.table
        with request_store(request, config, world, exclusive=False) as store:
            pass  # they have been initialized; what is asked of the store below needs no variable
        files = sok_files.TableFiles(store.label, config.folder, table.kit_name, table.dim)
        request.state = _Source(store, files)
        return np.array([files.rows, files.key_bytes, *files.written], np.int64)

    def run(self, request, config, world, headers):
        table = config.table
        if (headers != headers[0]).any():
            rows, key_bytes, keys_written, values_written = headers.T.tolist()
            raise CallError(FAILED_PRECONDITION, (
                "embedding table '{}': the ranks in turn see {} rows and {} bytes a key in '{}', keys written at {} ns "
                "and values at {} ns, expected the same on all; restore_from_file needs a folder that all ranks share, "
                "under the same path, to which no other job dumps meanwhile (or copies that keep the times, as cp -p "
                "makes them)").format(
                    table.name, rows, key_bytes, config.folder, keys_written, values_written), agreed=True)
        with request_store(request, config, world, exclusive=True) as store:
            agreed(world, lambda: shard_load.replace(store, request.state))


class _Source:
    """This rank's part of the files, see `shard_transfer.load`.

    All keys are read and checked first, so that what is wrong with them is known before anything changes.
    """

    def __init__(self, store, files):
        self._world, self._files, self._label = store.world, files, store.label
        self._placement = store.table.placement
        self._limits = limits(store.table, store.world.size)
        self.total = self._check_range()
        shard_load.check_total(store, self.total)  # `shard_load.replace` makes room
        self._check_distinct()

    def unused(self):
        """The files have no such rows."""
        return None

    def chunks(self):
        """Keys of this rank and their rows, in the files' order. What lies between them is read over only in part."""
        at_once = max(1, min(_KEYS_AT_ONCE, _BUFFER_BYTES // (4 * self._files.dim)))
        for first, keys in self._all_keys(at_once):
            own = self._own(keys)
            if not own.size:
                continue
            begin, end = int(own[0]), int(own[-1]) + 1
            values = self._files.values(first + begin, end - begin)
            if own.size < end - begin:
                values = values[own - begin]
            yield keys[own], {"rows": values}

    def _all_keys(self, at_once=_KEYS_AT_ONCE):
        for first in range(0, self._files.rows, at_once):
            yield first, self._files.keys(first, min(at_once, self._files.rows - first))

    def _own(self, keys):
        """Places of this rank's keys."""
        if self._world.size == 1:
            return np.arange(len(keys))
        return np.flatnonzero(self._placement.owners(keys, self._world.size) == self._world.rank)

    def _check_range(self):
        """The number of this rank's keys. Raises where any key is none for this table."""
        total = 0
        for first, keys in self._all_keys():
            if self._limits is not None:
                least, end, expected = self._limits
                wrong = np.flatnonzero((keys < least) | (keys >= end))
                if wrong.size:
                    raise CallError(INVALID_ARGUMENT, (
                        "{}: got key {} at place {} of '{}', expected keys in {}").format(
                            self._label, keys[wrong[0]], first + wrong[0], self._files.keys_path, expected))
            total += self._own(keys).size
        return total

    def _check_distinct(self):
        """Raises where a key comes twice."""
        twice = distinct_keys.repeated(lambda: (keys[self._own(keys)] for _, keys in self._all_keys()), self.total)
        if twice is not None:
            raise CallError(INVALID_ARGUMENT, (
                "{}: got key {} twice in '{}' of {} keys of {} bytes, expected every key once; was the table dumped "
                "with another embedding_vec_size, or with keys that belong to other ranks?").format(
                    self._label, twice, self._files.keys_path, self._files.rows, self._files.key_bytes))


def limits(table, ranks):
    """(least key, end of the keys, both in words) of a table, or None where any int64 is a key."""
    if not table.hashed:
        return 0, table.total(ranks), table.expected_keys(ranks)
    if table.key_dtype in _RANGES:
        least, end = _RANGES[table.key_dtype]
        return least, end, "[{}, {}) (key_dtype {})".format(least, end, table.key_dtype)
    return None


def restore(variables, folder, name="restore_from_file"):
    """An op that replaces the table of all ranks by what SOK's files hold; see `sok_files`.

    Args:
      variables: the table's `TableVariables`. folder: a path.
    """
    held, handles = variables.resources(*variables.content)
    label = "{} from '{}'".format(variables.table.label(), folder)
    return library.call("transfer.sok_restore.restore", sok_files.FilesConfig(variables.table, held, label, folder),
                        [], [], [], resources=handles, name=name)

"""A table of all ranks restored from SOK's files, whatever number of ranks has written them."""
import numpy as np

from sok1x.graph_ops.bridge import library, plan
from sok1x.graph_ops.bridge.agreed import agreed
from sok1x.graph_ops.bridge.errors import FAILED_PRECONDITION, INVALID_ARGUMENT, CallError
from sok1x.graph_ops.bridge.registry import Operation, register
from sok1x.graph_ops.stores.store import request_store
from sok1x.graph_ops.transfer import keyed_files, shard_load, sok_files


@register
class _Restore(Operation):
    """No output. The headers: the files' rows, the bytes of a key, and a checksum of samples of both."""

    name = "transfer.sok_restore.restore"
    Config = sok_files.FilesConfig
    communicates = True

    def prepare(self, request, config, world):
        table = config.table
        with request_store(request, config, world, exclusive=False) as store:
            pass  # they have been initialized; what is asked of the store below needs no variable
        name = sok_files.name_in(config.folder, table, plan.graph_of(request.plan))
        files = sok_files.TableFiles(store.label, config.folder, name, table.dim)
        request.state = _Source(store, files)
        return np.array([files.rows, files.key_bytes, files.sample], np.int64)

    def run(self, request, config, world, headers):
        table = config.table
        if (headers != headers[0]).any():
            rows, key_bytes, sample = headers.T.tolist()
            raise CallError(FAILED_PRECONDITION, (
                "embedding table '{}': the ranks in turn see {} rows and {} bytes a key in '{}', and samples of both "
                "files with the checksums {}, expected the same on all; restore_from_file needs a folder that all "
                "ranks share, under the same path, to which no other job dumps meanwhile").format(
                    table.name, rows, key_bytes, config.folder, sample), agreed=True)
        with request_store(request, config, world, exclusive=True) as store:
            agreed(world, lambda: shard_load.replace(store, request.state))


class _Source:
    """This rank's part of the files, see `shard_transfer.load`.

    All keys are read and checked first, so that what is wrong with them is known before anything changes.
    """

    def __init__(self, store, files):
        self._files, self._label = files, store.label
        self._rows = keyed_files.RankRows(store.table, store.world, files.rows)
        self._rows.count(self._pieces, self._wrong_key)
        self.total = self._rows.total
        shard_load.check_total(store, self.total)  # `shard_load.replace` makes room
        self._check_distinct()

    def unused(self):
        """The files have no such rows."""
        return None

    def chunks(self):
        """Keys of this rank and their rows, in the files' order."""
        return self._rows.chunks(self._files.keys, lambda first, n: {"rows": self._files.values(first, n)},
                                 4 * self._files.dim)

    def _pieces(self):
        return self._rows.pieces(self._files.keys)

    def _wrong_key(self, key, place, expected):
        return CallError(INVALID_ARGUMENT, "{}: got key {} at place {} of '{}', expected keys in {}".format(
            self._label, key, place, self._files.keys_path, expected))

    def _check_distinct(self):
        """Raises where a key comes twice."""
        twice = self._rows.repeated(self._pieces)
        if twice is not None:
            raise CallError(INVALID_ARGUMENT, (
                "{}: got key {} twice in '{}' of {} keys of {} bytes, expected every key once; was the table dumped "
                "with another embedding_vec_size, or with keys that belong to other ranks?").format(
                    self._label, twice, self._files.keys_path, self._files.rows, self._files.key_bytes))


def restore(variables, folder, name="restore_from_file"):
    """An op that replaces the table of all ranks by what SOK's files hold; see `sok_files`.

    Args:
      variables: the table's `TableVariables`. folder: a path.
    """
    held, handles = variables.resources(*variables.content)
    label = "{} from '{}'".format(variables.table.label(), folder)
    return library.call("transfer.sok_restore.restore", sok_files.FilesConfig(variables.table, held, label, folder),
                        [], [], [], resources=handles, name=name)

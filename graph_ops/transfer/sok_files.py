"""SOK 1.x's files of a table, in one folder.

    NAME_keys.file      the keys of all ranks, int64 or uint32, little-endian, without a header
    NAME_values.file    their rows, float32 [rows, D], in the same order

How wide a key is follows from the two files' sizes.
"""
import contextlib
import errno
import fcntl
import os
import time
import zlib
from typing import NamedTuple

import numpy as np

from sok1x.graph_ops.bridge.errors import (
    ABORTED,
    FAILED_PRECONDITION,
    INTERNAL,
    INVALID_ARGUMENT,
    RESOURCE_EXHAUSTED,
    CallError,
)
from sok1x.graph_ops.stores.table import Table
from sok1x.graph_ops.stores.table_variables import Held

NOT_FOUND, PERMISSION_DENIED = 5, 7
_ALL_TABLES = "global_embedding_variables"  # in which sok1x (core/graph_keys.py) has all tables of a graph
_CODES = {errno.ENOENT: NOT_FOUND, errno.ENOTDIR: NOT_FOUND, errno.EACCES: PERMISSION_DENIED,
          errno.EPERM: PERMISSION_DENIED, errno.EROFS: PERMISSION_DENIED, errno.ENOSPC: RESOURCE_EXHAUSTED,
          errno.EDQUOT: RESOURCE_EXHAUSTED, errno.EFBIG: RESOURCE_EXHAUSTED, errno.EMFILE: RESOURCE_EXHAUSTED,
          errno.ENFILE: RESOURCE_EXHAUSTED, errno.EEXIST: FAILED_PRECONDITION, errno.EISDIR: FAILED_PRECONDITION}


# How often files are opened of which others take the place meanwhile, and by how much longer it waits each time.
_OPENED_AT_MOST, _WAIT_SECONDS = 5, 0.02
_SAMPLES, _SAMPLE_BYTES = 256, 4096  # of each file, by which ranks compare what they see


class FilesConfig(NamedTuple):
    """Of an op that dumps or restores a table.

    Attributes:
      table, held: the table, and its content.
      label: what must be equal on all ranks.
      folder: where the files are."""

    table: Table
    held: Held
    label: str
    folder: str


def paths(folder, name):
    """(path of the keys, path of the values) of the table called `name`."""
    return tuple(os.path.join(folder, "{}_{}.file".format(name, what)) for what in ("keys", "values"))


def name_in(folder, table, graph=None):
    """What a table's files are called after in a folder: what an earlier sok1x called it, where there are no others.

    graph: that of the op which reads them; what another table is called there by now is that one's. None: not known.
    """
    variables = [] if graph is None else graph.get_collection(_ALL_TABLES)
    called = {variable.table.name for variable in variables if hasattr(variable, "table")}
    names = [table.kit_name] + ([] if table.saved_name in called - {table.name} else [table.saved_name])
    there = [name for name in names if any(map(os.path.lexists, paths(folder, name)))]
    return there[0] if there else table.kit_name


def key_dtype(table):
    """The dtype of a table's keys in a file. The files know no int32: such keys are written as int64, so that negative
    ones stay what they are."""
    return np.dtype("<u4" if table.key_dtype == "uint32" else "<i8")


@contextlib.contextmanager
def errors(label, path, wanted=0):
    """What the operating system refuses becomes a CallError that names the table, the rank and the file.

    Args:
      wanted: bytes that are to be written there.
    """
    try:
        yield
    except OSError as error:
        room = ""
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            room = ": {} bytes were to be written, {} are free".format(wanted, _free_bytes(os.path.dirname(path)))
        raise CallError(_CODES.get(error.errno, INTERNAL), "{}: '{}': {}{}".format(
            label, path, error.strerror or error, room)) from error


def _free_bytes(folder):
    """How many bytes are free, in words: where the system does not say, that is no error beside the one at hand."""
    try:
        found = os.statvfs(folder or ".")
    except OSError:
        return "an unknown number"
    return str(found.f_bavail * found.f_frsize)


class File:
    """A file that is read or written at chosen places; errors are CallErrors.

    Args:
      label: whose it is, for errors. flags: of os.open.
    """

    def __init__(self, label, path, flags):
        self.label, self.path = label, path
        self._number = -1
        with errors(label, path):
            self._number = os.open(path, flags | os.O_CLOEXEC, 0o666)

    def __del__(self):
        self.close()

    def close(self):
        """Closes it; a second time is fine."""
        number, self._number = self._number, -1
        if number >= 0:
            os.close(number)

    @property
    def status(self):
        """What the system says of it now."""
        with errors(self.label, self.path):
            return os.fstat(self._number)

    def lock(self):
        """Locks it until it is closed, where the file system has locks."""
        with contextlib.suppress(OSError):
            fcntl.flock(self._number, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def set_size(self, nbytes):
        """Makes it that long, with zeros where nothing is written."""
        with errors(self.label, self.path):
            os.ftruncate(self._number, nbytes)

    def read(self, offset, out):
        """Fills a contiguous NumPy array from the bytes at `offset`."""
        room = memoryview(out.reshape(-1).view(np.uint8))
        while len(room):
            with errors(self.label, self.path):
                got = os.preadv(self._number, [room], offset)
            if not got:
                raise CallError(INVALID_ARGUMENT, "{}: '{}' became shorter while it was read: got {} bytes".format(
                    self.label, self.path, offset))
            room, offset = room[got:], offset + got

    def write(self, offset, values):
        """Writes a contiguous NumPy array at `offset`."""
        left = memoryview(values.reshape(-1).view(np.uint8))
        while len(left):
            with errors(self.label, self.path, len(left)):
                done = os.pwrite(self._number, left, offset)
            left, offset = left[done:], offset + done

    def sync(self):
        """Returns when what was written is on the disk."""
        with errors(self.label, self.path):
            os.fsync(self._number)


def _open_both(label, folder, name):
    """The keys and the values of one dump, open for reading.

    Another job's dump may take their names at any time, so that keys and values that are opened one after the other may
    be of two. They are of one if both names still are theirs afterwards, looked up in the order in which a dump gives
    the names away. They are looked up by opening them, for of a name an NFS client may remember what it was.
    """
    both = paths(folder, name)
    for again in range(_OPENED_AT_MOST):
        time.sleep(again * _WAIT_SECONDS)
        try:
            opened = [File(label, path, os.O_RDONLY) for path in both]
            if all(os.path.samestat(one.status, File(label, one.path, os.O_RDONLY).status) for one in opened):
                return opened
        except CallError as error:
            # For a moment a dump's names are nobody's.
            if error.code != NOT_FOUND or again == _OPENED_AT_MOST - 1:
                raise
    raise CallError(ABORTED, (
        "{}: '{}' and '{}' were replaced {} times while they were opened, expected those of one dump: let no other job "
        "dump to '{}' now").format(label, both[0], both[1], _OPENED_AT_MOST, folder))


def _sample(file, nbytes):
    """Pieces of a file, all over it."""
    piece = min(nbytes, _SAMPLE_BYTES)
    pieces = min(_SAMPLES, -(-nbytes // _SAMPLE_BYTES))
    found = np.empty((pieces, piece), np.uint8)
    for number, out in enumerate(found):
        file.read((nbytes - piece) * number // max(1, pieces - 1), out)
    return found.tobytes()


class TableFiles:
    """Both files of a table, of one dump, open for reading.

    Args:
      label: the table and the rank, for errors. folder, name: see `paths`. dim: D.

    Attributes:
      rows: rows in the files. key_bytes: 4 or 8.
      sample: a checksum of some of their bytes, by which ranks tell one dump from another.

    Raises:
      CallError: a file is missing, their sizes do not fit each other, or others take their place again and again.
    """

    def __init__(self, label, folder, name, dim):
        self.label, self.dim = label, dim
        self._keys, self._values = _open_both(label, folder, name)
        keys, values = self._keys.status, self._values.status
        self.sample = zlib.crc32(_sample(self._values, values.st_size), zlib.crc32(_sample(self._keys, keys.st_size)))
        keys_bytes, values_bytes = keys.st_size, values.st_size
        self.rows, odd = divmod(values_bytes, 4 * dim)
        self.key_bytes = keys_bytes // self.rows if self.rows else 8
        if odd or self.key_bytes not in (4, 8) or self.key_bytes * self.rows != keys_bytes:
            raise CallError(INVALID_ARGUMENT, (
                "{}: got '{}' of {} bytes and '{}' of {} bytes, expected 4 x {} bytes (embedding_vec_size {}) for each "
                "row and 4 or 8 bytes for its key; was the table dumped with another embedding_vec_size?").format(
                    label, self._values.path, values_bytes, self._keys.path, keys_bytes, dim, dim))

    @property
    def keys_path(self):
        """The path of the keys."""
        return self._keys.path

    def keys(self, first, n):
        """Keys first to first + n - 1, int64 [n]."""
        keys = np.empty(n, "<u4" if self.key_bytes == 4 else "<i8")
        self._keys.read(first * self.key_bytes, keys)
        return keys.astype(np.int64, copy=False)

    def values(self, first, n):
        """Their rows, float32 [n, D]."""
        values = np.empty([n, self.dim], np.float32)
        self._values.read(first * 4 * self.dim, values)
        return values

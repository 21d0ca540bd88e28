"""A shard's rows to a dump's files: a receiver for graph_ops/transfer/shard_transfer.py's save op."""
import os
from typing import Any, Dict, List, NamedTuple

import numpy as np

from sok1x.checkpoint import errors
from sok1x.checkpoint.files.shard_names import KEYS
from sok1x.checkpoint.files.stream_writer import StreamWriter, write_at
from sok1x.checkpoint.files.writing import strays
from sok1x.dump_load import layout


class PartFile(NamedTuple):
    """A part of a table and its file.

    Attributes:
        part: "keys", "rows" or a slot's. path: the file's. head: its first bytes.
        dtype: of its values. row_bytes: of one row.
    """

    part: str
    path: str
    head: layout.Head
    row_bytes: int

    @property
    def dtype(self) -> np.dtype:
        """The values' dtype in the file."""
        return layout.little(self.head.dtype)


def create(files: List[PartFile], rows: int) -> None:
    """Makes files with their heads, as long as they will be. Raises CheckpointError."""
    for part in files:
        head, wanted = part.head.encode(), layout.HEAD_BYTES + rows * part.row_bytes
        try:
            fd = os.open(part.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
            try:
                os.ftruncate(fd, wanted)
                write_at(fd, head, 0)
                os.fsync(fd)
            finally:
                os.close(fd)
        except OSError as error:
            raise errors.of_write(error, part.path, wanted) from None


class ShardSink:
    """Writes a rank's rows to their places in files that all ranks write.

    Args:
        files: of the parts that are wanted; others are passed over.
        name: the table's. first: the first row of this rank. count: how many it has. rows: how many all have.
    """

    def __init__(self, files: List[PartFile], name: str, first: int, count: int, rows: int) -> None:
        self._files = {part.part: part for part in files}
        self._name, self._first, self._count, self._rows = name, first, count, rows
        self._writers: Dict[str, StreamWriter] = {}
        self._facts: Dict[str, Any] = {}
        self._written: Dict[str, int] = {part: 0 for part in self._files}

    def begin(self, facts: Dict[str, Any]) -> None:
        """Takes what the shard is."""
        self._facts = facts
        if facts["used"] != self._count:
            raise errors.CheckpointError("Table '{}' had {} rows on this rank when sok.dump began, and has {} now: do "
                                         "not train while it runs.".format(self._name, self._count, facts["used"]))

    def write(self, part: str, rows: np.ndarray) -> None:
        """Appends rows, [n, ...], to a part."""
        if part == KEYS and strays(self._facts, rows):
            raise errors.CheckpointError((
                "Table '{}' has {} keys on rank {} that belong to other ranks (tf.nn.embedding_lookup gives keys rows "
                "on the rank that looks them up), and in a dump each key has one row: save it with "
                "sok.CheckpointManager, or look it up by sok.lookup_sparse.").format(
                    self._name, strays(self._facts, rows), self._facts["rank"]))
        file = self._files.get(part)
        if file is None or not len(rows):
            return
        if part not in self._writers:
            self._finish()
            self._writers[part] = self._open(file)
        values = np.ascontiguousarray(rows, file.dtype)
        if values.nbytes != len(rows) * file.row_bytes:  # all rows after it would lie elsewhere
            raise errors.CheckpointError("{} got {} bytes for {} rows of this rank, expected {} a row.".format(
                file.path, values.nbytes, len(rows), file.row_bytes))
        self._writers[part].put(values)
        self._written[part] += len(rows)

    def end(self) -> None:
        """Waits until the disk has everything."""
        self._finish()
        for part, written in self._written.items():
            if written != self._count:
                raise errors.CheckpointError("{} got {} rows of this rank, expected {}.".format(
                    self._files[part].path, written, self._count))

    def abort(self) -> None:
        """Closes the files as they are; may be called at any time."""
        for writer in self._writers.values():
            writer.close()

    def _open(self, file: PartFile) -> StreamWriter:
        wanted = layout.HEAD_BYTES + self._rows * file.row_bytes
        try:
            fd = os.open(file.path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError as error:
            raise errors.of_write(error, file.path, wanted) from None
        return StreamWriter(fd, file.path, wanted, layout.HEAD_BYTES + self._first * file.row_bytes)

    def _finish(self) -> None:
        for part in list(self._writers):
            self._writers.pop(part).finish()

"""The files of one table in a dump, looked at before anything is loaded from them."""
import contextlib
import os
from contextlib import ExitStack
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Tuple

import numpy as np

from sok1x.checkpoint import errors
from sok1x.checkpoint.errors import DamagedError, MismatchError
from sok1x.checkpoint.files import open_file
from sok1x.checkpoint.files.shard_names import KEYS
from sok1x.dump_load import layout
from sok1x.dump_load.layout import TableInfo


class Wanted(NamedTuple):
    """What a model wants of a table.

    Attributes:
        name: the variable's, for messages.
        stems: what the files may be called after, the likeliest first.
        dim: D. parts: {part: (slot's name in files or "", dtype)} to be loaded, of shape [n, D] each.
        optimizers: names under which its slots may be, the likeliest first.
    """

    name: str
    stems: List[str]
    dim: int
    parts: Dict[str, Tuple[str, str]]
    optimizers: Tuple[str, ...]


class _File(NamedTuple):
    path: str
    row: np.dtype  # of one row, little-endian


class TableFiles:
    """A table's files, which all fit each other and what is wanted.

    Args:
        folder: the dump's. tables: what its meta_info says. wanted: by the model.

    Attributes:
        rows: rows in the files. keys_path: the path of the keys.

    Raises:
        CheckpointError: there is no such table or slot; DamagedError: a file is missing, or is not as it must be;
            MismatchError: the table is another than the model's.
    """

    def __init__(self, folder: str, tables: List[TableInfo], wanted: Wanted) -> None:
        self._wanted = wanted
        meta = os.path.join(folder, layout.META_INFO)
        info = layout.of_table(tables, wanted.stems, meta)
        self._stem = info.table if info is not None else next(
            (one for one in wanted.stems if os.path.lexists(os.path.join(folder, layout.file_name(one, layout.KEY)))),
            wanted.stems[0])
        if info is not None:
            self._expect_like_model(meta, info)
        self.rows = -1 if info is None else info.rows
        self._files: Dict[str, _File] = {}
        for part, (slot, dtype) in wanted.parts.items():
            path = self._slot_path(folder, slot) if slot else os.path.join(
                folder, layout.file_name(self._stem, layout.WEIGHT))
            self._files[part] = self._look(path, layout.SLOT if slot else layout.WEIGHT, slot, dtype, info)
        self.keys_path = os.path.join(folder, layout.file_name(self._stem, layout.KEY))
        self._files[KEYS] = self._look_at_keys(self.keys_path, info)
        if info is None:
            self._expect_in(tables, meta)

    @contextlib.contextmanager
    def open(self, parts: bool = True) -> Iterator["OpenFiles"]:
        """The keys, and unless `parts` is False all else, open to be read."""
        with ExitStack() as stack:
            opened = {}
            for part, (path, row) in self._files.items():
                if part == KEYS or parts:
                    fd, size = open_file.open_regular(path, self._what())
                    stack.callback(os.close, fd)
                    if size != layout.HEAD_BYTES + self.rows * row.itemsize:
                        raise DamagedError("{} became another while it was read.".format(path))
                    opened[part] = fd
            yield OpenFiles(self._files, opened)

    def _what(self) -> str:
        return "a part of table '{}' in a dump".format(self._wanted.name)

    def _expect_like_model(self, meta: str, info: TableInfo) -> None:
        slot, dtype = next(iter(self._wanted.parts.values()))
        if info.dim != self._wanted.dim or info.dtype != dtype:
            raise MismatchError("{} has rows of {} {} for table '{}', and the model's are of {} {}.".format(
                meta, info.dim, info.dtype, self._wanted.name, self._wanted.dim, dtype))

    def _slot_path(self, folder: str, slot: str) -> str:
        names = self._wanted.optimizers
        paths = [os.path.join(folder, layout.file_name(self._stem, layout.SLOT, one, slot)) for one in names]
        for path in paths:
            if os.path.lexists(path):
                return path
        there = sorted(name for name in os.listdir(folder) if name.startswith(self._stem + "-")
                       and name not in [layout.file_name(self._stem, kind) for kind in (layout.KEY, layout.WEIGHT)])
        raise errors.NotFoundError(
            "{} has no slot '{}' of optimizer {} for table '{}'; it has {}. Load without an optimizer, or with one "
            "that keeps the same slots.".format(folder, slot, names[0], self._wanted.name, ", ".join(there) or "none"))

    def _look(self, path: str, kind: int, slot: str, dtype: str, info: Optional[TableInfo]) -> _File:
        """A file of values: its head and its length. Takes the number of rows from the first where it is not known."""
        head, size = self._head(path, kind, slot)
        if head.dtype != dtype:
            kinds = DamagedError if info is not None and kind == layout.WEIGHT else MismatchError
            raise kinds("{} has values of {}, expected {}.".format(path, head.dtype, dtype))
        row = np.dtype((layout.little(dtype), (self._wanted.dim,)))
        if self.rows < 0:
            self.rows = (size - layout.HEAD_BYTES) // row.itemsize
        self._expect_size(path, size, row.itemsize)
        return _File(path, row)

    def _look_at_keys(self, path: str, info: Optional[TableInfo]) -> _File:
        head, size = self._head(path, layout.KEY, "")
        if info is not None and head.dtype != info.key_dtype:
            raise DamagedError("{} is damaged: got keys of {}, expected {} as {} says.".format(
                path, head.dtype, info.key_dtype, layout.META_INFO))
        if head.dtype not in ("int32", "int64", "uint32", "uint64"):
            raise DamagedError("{} is damaged: got keys of {}, expected integers.".format(path, head.dtype))
        row = layout.little(head.dtype)
        if head.dtype == "uint32" and self.rows and size == layout.HEAD_BYTES + 8 * self.rows:
            row = layout.little("uint64")  # as SOK writes them
        self._expect_size(path, size, row.itemsize)
        return _File(path, row)

    def _head(self, path: str, kind: int, slot: str) -> Any:
        fd, size = open_file.open_regular(path, self._what())
        try:
            data = bytearray(min(size, layout.HEAD_BYTES))
            open_file.read_into(fd, 0, memoryview(data))
        except OSError as error:
            raise errors.of_read(error, path, self._what()) from None
        finally:
            os.close(fd)
        head = layout.decode_head(bytes(data), path)
        if (head.table, head.kind, head.slot) != (self._stem, kind, slot):
            raise DamagedError("{} is damaged: its head says table '{}', type {}, slot '{}', expected '{}', {}, "
                               "'{}'.".format(path, head.table, head.kind, head.slot, self._stem, kind, slot))
        return head, size

    def _expect_size(self, path: str, size: int, row_bytes: int) -> None:
        expected = layout.HEAD_BYTES + self.rows * row_bytes
        if size != expected:
            raise DamagedError("{} is damaged: got {} bytes, expected {} for {} rows of {} bytes and a head of "
                               "{}.".format(path, size, expected, self.rows, row_bytes, layout.HEAD_BYTES))

    def _expect_in(self, tables: List[TableInfo], meta: str) -> None:
        """Where names are mixed up, some table of meta_info must be this one."""
        if not any((one.rows, one.dim) == (self.rows, self._wanted.dim) for one in tables):
            raise MismatchError("{} has no table of {} rows of {} values, as the files of '{}' have; it has {}.".format(
                meta, self.rows, self._wanted.dim, self._stem, ", ".join(
                    "{} x {}".format(one.rows, one.dim) for one in tables)))


class OpenFiles:
    """Reads rows of open files.

    Args:
        files: what they are. opened: {part: number of the file}.
    """

    def __init__(self, files: Dict[str, _File], opened: Dict[str, int]) -> None:
        self._files, self._opened = files, opened

    def read(self, part: str, first: int, n: int) -> np.ndarray:
        """Rows first to first + n - 1 of a part, in a new array. Raises DamagedError."""
        path, row = self._files[part]
        out = np.empty([n], row)
        try:
            whole = n == 0 or open_file.read_into(
                self._opened[part], layout.HEAD_BYTES + first * row.itemsize,
                memoryview(out.reshape(-1).view(np.uint8)))
        except OSError as error:
            raise errors.of_read(error, path, "a part of a table in a dump") from None
        if not whole:
            raise DamagedError("{} was cut short while it was read.".format(path))
        return out

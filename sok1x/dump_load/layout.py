"""The bytes of SOK 2.x's files.

    T-key, T-weight, T-<Optimizer>-<slot>   of each table: a head of 296 bytes, then little-endian values, in the same
                                            order of keys in all files of the table
    meta_info                               which tables there are

T is the variable's name with every punctuation character replaced by `_`. Names are padded with blanks on the left;
integers in heads and meta_info are big-endian.
"""
import string
import struct
from typing import Any, List, NamedTuple, Optional, Sequence

import numpy as np

from sok1x.checkpoint.errors import CheckpointError, DamagedError
from sok1x.checkpoint.files import dumps

META_INFO = dumps.LIST
KEY, WEIGHT, SLOT = 0, 1, 2
HEAD_BYTES = 296
NO_OPTIMIZER = "None"

_DTYPES = ("int32", "int64", "uint32", "uint64", "float16", "float32", "float64")
_NAME, _SLOT_NAME = 256, 32
_ENTRY = 4 + 4 + 4 + 8 + _NAME + _SLOT_NAME
_PUNCTUATION = str.maketrans(string.punctuation, "_" * len(string.punctuation))
_MOST_TABLES = 1 << 20


def stem(name: str) -> str:
    """What a table's files are called after."""
    return name.translate(_PUNCTUATION)


def file_name(table: str, kind: int, optimizer: str = "", slot: str = "") -> str:
    """The name of a file; table is a stem."""
    if kind == SLOT:
        return "{}-{}-{}".format(table, optimizer, slot)
    return "{}-{}".format(table, ("key", "weight")[kind])


class Head(NamedTuple):
    """A file's first bytes: the table's stem, what it holds, the slot's name or "", and the values' dtype."""

    table: str
    kind: int
    slot: str
    dtype: str

    def encode(self) -> bytes:
        """The 296 bytes. Raises CheckpointError where a name is too long, or there is no number for the dtype."""
        return b"".join([_padded(self.table, _NAME), struct.pack(">i", self.kind), _padded(self.slot, _SLOT_NAME),
                         struct.pack(">i", dtype_number(self.dtype))])


def decode_head(data: bytes, path: str) -> Head:
    """A file's head. Raises DamagedError."""
    if len(data) < HEAD_BYTES:
        raise DamagedError("{} is damaged: got {} bytes, expected a head of {}.".format(path, len(data), HEAD_BYTES))
    kind, = struct.unpack_from(">i", data, _NAME)
    number, = struct.unpack_from(">i", data, HEAD_BYTES - 4)
    if kind not in (KEY, WEIGHT, SLOT):
        raise DamagedError("{} is damaged: got a file of type {}, expected 0, 1 or 2.".format(path, kind))
    return Head(stem(_name(data[:_NAME], path)), kind, _name(data[_NAME + 4:HEAD_BYTES - 4], path),
                dtype_name(number, path))


class TableInfo(NamedTuple):
    """What meta_info says of a table.

    Attributes:
        table: its stem. key_dtype, dtype: of keys and values. dim: D. rows: of all ranks.
        optimizer: its name, as in the files' names, or "None".
    """

    table: str
    key_dtype: str
    dtype: str
    dim: int
    rows: int
    optimizer: str


def encode_meta(tables: Sequence[TableInfo]) -> bytes:
    """The bytes of meta_info. Raises CheckpointError as `Head.encode`."""
    columns: List[List[bytes]] = [
        [struct.pack(">i", dtype_number(table.key_dtype)) for table in tables],
        [struct.pack(">i", dtype_number(table.dtype)) for table in tables],
        [struct.pack(">i", table.dim) for table in tables],
        [struct.pack(">q", table.rows) for table in tables],
        [_padded(table.table, _NAME) for table in tables],
        [_padded(table.optimizer, _SLOT_NAME) for table in tables]]
    return struct.pack(">i", len(tables)) + b"".join(b"".join(column) for column in columns)


def decode_meta(data: bytes, path: str) -> List[TableInfo]:
    """What meta_info says. Raises DamagedError."""
    n = struct.unpack_from(">i", data)[0] if len(data) >= 4 else -1
    if n < 0 or n > _MOST_TABLES or len(data) != 4 + n * _ENTRY:
        raise DamagedError("{} is damaged: got {} bytes for {} tables, expected 4 and {} for each.".format(
            path, len(data), "no number of" if len(data) < 4 else n, _ENTRY))
    place = 4

    def column(nbytes: int) -> List[bytes]:
        nonlocal place
        begin, place = place, place + n * nbytes
        return [data[begin + i * nbytes:begin + (i + 1) * nbytes] for i in range(n)]

    key_dtypes, dtypes, dims = column(4), column(4), column(4)
    rows, names, optimizers = column(8), column(_NAME), column(_SLOT_NAME)
    tables = [TableInfo(stem(_name(names[i], path)), dtype_name(_number(key_dtypes[i]), path),
                        dtype_name(_number(dtypes[i]), path), _number(dims[i]), _number(rows[i]),
                        _name(optimizers[i], path)) for i in range(n)]
    for table in tables:
        if table.dim < 1 or table.rows < 0:
            raise DamagedError("{} is damaged: got {} rows of {} values for table '{}'.".format(
                path, table.rows, table.dim, table.table))
    return tables


def most_meta_bytes() -> int:
    """So long meta_info can be."""
    return 4 + _MOST_TABLES * _ENTRY


def of_table(tables: Sequence[TableInfo], names: Sequence[str], path: str) -> Optional[TableInfo]:
    """What meta_info says of a table that has one of these stems, the first of them if it can.

    It is None where SOK has mixed up its names: where it has written several tables, all may have one.

    Raises:
        CheckpointError: no such table.
    """
    found = [table for name in names for table in tables if table.table == name]
    if len({table.table for table in tables}) < len(tables):
        return None
    if not found:
        raise CheckpointError("{} has no table '{}', which was to be loaded; it has {}.".format(
            path, names[0], ", ".join(sorted(table.table for table in tables)) or "none"))
    return found[0]


def dtype_number(dtype: str) -> int:
    """SOK's number of a dtype. Raises CheckpointError where it has none."""
    if dtype not in _DTYPES:
        raise CheckpointError("SOK's files have no dtype {}, only {}.".format(dtype, ", ".join(_DTYPES)))
    return _DTYPES.index(dtype)


def dtype_name(number: int, path: str) -> str:
    """The dtype of a number. Raises DamagedError."""
    if not 0 <= number < len(_DTYPES):
        raise DamagedError("{} is damaged: got {} for a dtype, expected 0 to {}.".format(
            path, number, len(_DTYPES) - 1))
    return _DTYPES[number]


def little(dtype: Any) -> np.dtype:
    """A dtype as values have it in the files."""
    return np.dtype(dtype).newbyteorder("<")


def _padded(name: str, length: int) -> bytes:
    data = name.encode()
    if len(data) > length:
        raise CheckpointError("SOK's files have room for names of {} bytes: got '{}' of {}; give the variable a "
                              "shorter name.".format(length, name, len(data)))
    return data.rjust(length)


def _name(data: bytes, path: str) -> str:
    try:
        return data.decode().strip(" \0")
    except UnicodeDecodeError:
        raise DamagedError("{} is damaged: got a name that is no text: {!r}.".format(path, data.strip())) from None


def _number(data: bytes) -> int:
    return int.from_bytes(data, "big", signed=True)

"""The first bytes of a shard file: which part of which table it holds, and how.

A shard file is one part (keys, rows, an optimizer slot, …) of one table on one rank. All numbers are little-endian.

    header block    bytes 0-7    magic "SOK1XSHD"
                    bytes 8-11   u32, format version
                    bytes 12-15  u32, length of the JSON that follows
                    JSON         the fields of `Header`, then spaces (its room is kept before key_range is known)
                    zeros        up to 4 bytes before a multiple of 4096
                    u32          crc32c of the header block up to here
    payload         `count` rows, one after the other
    trailer         u32 for every block of `block_rows` rows: its crc32c
                    u32          crc32c of the trailer up to here

So a file's length follows from its header. Its checksum, as the manifest has it, is the crc32c of header block and
trailer, each without its own checksum (a crc over data and its crc is the same for all data): with the block checksums
it covers every byte, and a file can be written and checked in one pass.
"""
import dataclasses
import struct
from typing import Any, Dict, Optional, Tuple

import crc32c
import numpy as np

from sok1x.checkpoint.errors import CheckpointError, DamagedError, FormatVersionError
from sok1x.checkpoint.files import strict_json

VERSION = 1
MAGIC = b"SOK1XSHD"
BLOCK_BYTES = 4 << 20
DTYPES = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64")

_PREFIX = struct.Struct("<8sII")
_PAGE = 4096
_LONGEST_JSON = 64 << 10
_LONGEST_NAME = 1024
_LARGEST_BLOCK = 16 << 20
_LARGEST_ROW = 64 << 20
_LARGEST_COUNT = 2 ** 48
_MOST_BLOCKS = 1 << 22  # 16 TB in a file


@dataclasses.dataclass(frozen=True)
class Header:
    """What a shard file holds; `token` is equal in all files of one checkpoint and in no other."""

    token: str
    step: int
    table: str
    part: str
    rank: int
    ranks: int
    dtype: str
    row_shape: Tuple[int, ...]
    count: int
    block_rows: int
    key_range: Optional[Tuple[int, int]] = None  # least and greatest key of a file of keys that has any

    @property
    def row_bytes(self) -> int:
        """Bytes of one row."""
        size = np.dtype(self.dtype).itemsize
        for extent in self.row_shape:
            size *= extent
        return size

    @property
    def blocks(self) -> int:
        """Number of blocks of the payload."""
        return -(-self.count // self.block_rows)

    @property
    def payload_bytes(self) -> int:
        """Bytes of all rows."""
        return self.count * self.row_bytes

    @property
    def trailer_bytes(self) -> int:
        """Bytes of the trailer, its own checksum included."""
        return 4 * (self.blocks + 1)

    def rows_of_block(self, block: int) -> int:
        """Number of rows in one block; only the last can have fewer than block_rows."""
        return min(self.block_rows, self.count - block * self.block_rows)


def rows_per_block(dtype: str, row_shape: Tuple[int, ...], block_bytes: int = BLOCK_BYTES) -> int:
    """The number of rows that make a block of about `block_bytes`."""
    row_bytes = np.dtype(dtype).itemsize * int(np.prod(row_shape, dtype=np.int64))
    return max(1, block_bytes // row_bytes)


def encode(header: Header) -> bytes:
    """The header block. Its length does not depend on `key_range`. Raises CheckpointError where a name is too long."""
    expect_names(header.table, header.part)
    text = strict_json.dumps(dataclasses.asdict(header))
    widest = dataclasses.replace(header, key_range=(-2 ** 63, -2 ** 63)) if header.part == "keys" else header
    text = text.ljust(len(strict_json.dumps(dataclasses.asdict(widest))))
    if len(text) > _LONGEST_JSON:
        raise ValueError("The header of part '{}' of table '{}' takes {} bytes, and at most {} fit: shorten the "
                         "name.".format(header.part, header.table, len(text), _LONGEST_JSON))
    block = (_PREFIX.pack(MAGIC, VERSION, len(text)) + text).ljust(_block_length(len(text)) - 4, b"\0")
    return block + struct.pack("<I", crc32c.crc32c(block))


def file_checksum(block: bytes, trailer: bytes) -> int:
    """The checksum that the manifest has of a file with this header block and this trailer."""
    return crc32c.crc32c(trailer[:-4], crc32c.crc32c(block[:-4]))


def block_length(prefix: bytes, what: str) -> int:
    """Bytes of the header block that begins with `prefix` (16 bytes). Raises as `decode` does."""
    if len(prefix) < _PREFIX.size or not prefix.startswith(MAGIC):
        raise DamagedError("{} is not a shard file: it does not begin with {}.".format(what, MAGIC.decode()))
    _, version, length = _PREFIX.unpack(prefix[:_PREFIX.size])
    if version != VERSION:
        raise FormatVersionError("{} is of shard file format {}, and this sok1x reads format {}: use the sok1x that "
                                 "wrote it, or a later one.".format(what, version, VERSION))
    if not 2 <= length <= _LONGEST_JSON:
        raise DamagedError("{} is damaged: its header claims {} bytes of JSON, and 2 to {} can be.".format(
            what, length, _LONGEST_JSON))
    return _block_length(length)


def decode(block: bytes, what: str) -> Header:
    """The header in a whole header block.

    Args:
        block: `block_length` bytes.
        what: The file, and the table that it should hold, for messages.

    Raises:
        DamagedError: The block is not what `encode` gives.
        FormatVersionError: It is of another version of the format.
    """
    length = block_length(block[:_PREFIX.size], what)
    if len(block) != length or struct.unpack("<I", block[-4:])[0] != crc32c.crc32c(block[:-4]):
        raise DamagedError("{} is damaged: the checksum of its header does not match.".format(what))
    size = _PREFIX.unpack(block[:_PREFIX.size])[2]
    try:
        fields = strict_json.loads(block[_PREFIX.size:_PREFIX.size + size])
        return _checked(fields)
    except ValueError as error:
        raise DamagedError("{} has a header that cannot be: {}.".format(what, error)) from None


def _block_length(json_bytes: int) -> int:
    return -(-(_PREFIX.size + json_bytes + 4) // _PAGE) * _PAGE


def integer(value: Any, least: int, greatest: int, name: str) -> int:
    """`value`, if it is an integer in a range (true and false are none). Raises ValueError."""
    if type(value) is not int or not least <= value <= greatest:
        raise ValueError("{} is {!a:.80}, and an integer from {} to {} is expected".format(
            name, value, least, greatest))
    return value


def text(value: Any, name: str) -> str:
    """`value`, if it is a string of 1 to 1024 characters. Raises ValueError."""
    if not isinstance(value, str) or not 1 <= len(value) <= _LONGEST_NAME:
        raise ValueError("{} is {!a:.80}, and a string of 1 to {} characters is expected".format(
            name, value, _LONGEST_NAME))
    return value


def expect_names(table: str, *parts: str) -> None:
    """Raises CheckpointError where a table, or a part of it, has a name that `text` would not take back."""
    for name, whose in [(table, "its name")] + [(part, "the name of its part '{:.80}'".format(part)) for part in parts]:
        if len(name) > _LONGEST_NAME:
            raise CheckpointError("Cannot save table '{:.80}': {} has {} characters, and at most {} can be read: give "
                                  "it a shorter name.".format(table, whose, len(name), _LONGEST_NAME))


def layout(dtype: Any, row_shape: Any) -> Tuple[str, Tuple[int, ...]]:
    """dtype and shape of a row, if they can be. Raises ValueError."""
    if dtype not in DTYPES:
        raise ValueError("dtype is {!a:.80}, and one of {} is expected".format(dtype, ", ".join(DTYPES)))
    if not isinstance(row_shape, (list, tuple)) or len(row_shape) > 8:
        raise ValueError("row_shape is {!a:.80}, and a list of at most 8 extents is expected".format(row_shape))
    size = np.dtype(dtype).itemsize
    for extent in row_shape:
        size *= integer(extent, 1, _LARGEST_ROW, "an extent of row_shape")
    integer(size, 1, _LARGEST_ROW, "the number of bytes of a row")
    return dtype, tuple(row_shape)


def _checked(fields: Dict[str, Any]) -> Header:
    names = [field.name for field in dataclasses.fields(Header)]
    if set(fields) != set(names):
        raise ValueError("its fields are {!a:.200}, and {} are expected".format(
            ", ".join(sorted(fields)), ", ".join(names)))
    dtype, row_shape = layout(fields["dtype"], fields["row_shape"])
    ranks = integer(fields["ranks"], 1, 1 << 20, "ranks")
    header = Header(
        token=text(fields["token"], "token"), step=integer(fields["step"], 0, 2 ** 63 - 1, "step"),
        table=text(fields["table"], "table"), part=text(fields["part"], "part"),
        rank=integer(fields["rank"], 0, ranks - 1, "rank"), ranks=ranks, dtype=dtype, row_shape=row_shape,
        count=integer(fields["count"], 0, _LARGEST_COUNT, "count"),
        block_rows=integer(fields["block_rows"], 1, _LARGEST_BLOCK, "block_rows"),
        key_range=_key_range(fields["key_range"]))
    size = header.block_rows * header.row_bytes
    # Bounds what is held in memory: one block, and the trailer.
    if size > _LARGEST_BLOCK and header.block_rows > 1:
        raise ValueError("a block is of {} rows, that is {} bytes, and at most {} are expected".format(
            header.block_rows, size, _LARGEST_BLOCK))
    if header.blocks > _MOST_BLOCKS:
        raise ValueError("it has {} blocks, and at most {} are expected".format(header.blocks, _MOST_BLOCKS))
    if header.part == "keys":
        if (header.dtype, header.row_shape) != ("int64", ()) or (header.key_range is None) != (header.count == 0):
            raise ValueError("keys are int64 [] and have a key_range unless there are none")
    elif header.key_range is not None:
        raise ValueError("part {!a:.80} has a key_range, which is for keys".format(header.part))
    return header


def _key_range(value: Any) -> Optional[Tuple[int, int]]:
    if value is None:
        return None
    if not isinstance(value, list) or len(value) != 2:
        raise ValueError("key_range is {!a:.80}, and [least, greatest] is expected".format(value))
    least = integer(value[0], -2 ** 63, 2 ** 63 - 1, "the least key")
    return least, integer(value[1], least, 2 ** 63 - 1, "the greatest key")

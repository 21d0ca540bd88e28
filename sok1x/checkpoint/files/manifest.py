"""manifest.json: what a checkpoint consists of. It is written last, so a folder that has it is complete.

It is one JSON object (see strict_json.py) that ends with `,"crc32c":"xxxxxxxx"}` and a line feed; the eight hexadecimal
digits are the crc32c of all bytes before that end.

    format, version   "sok1x checkpoint"; 2 where a table has admission, which earlier readers do not know, else 1
    token             of the save: equal in all its files, different from every other save's
    step, ranks       the global step; the number of ranks that wrote
    written           seconds since 1970
    tables            {name: {dim, rows (V of each rank), counts (rows in use, a number for each rank), use_hashtable,
                      key_dtype, parts: {part: {dtype, row_shape, suffix}}}}; where one rank has all rows also
                      localized, that rank; where V is not the same on all ranks also keys, the rows of all, and
                      rows is then the largest V; where ranks have keys that belong to others also strays, a number
                      for each rank; where not every key gets a row also admission, [counters, bits]: of the sketch in
                      its part 'admission', or [0, 0] without one
    files             {name in the folder: {bytes, crc32c}}; of a shard file the checksum that shard_header.py
                      describes, of TensorFlow's files that of all their bytes
"""
import os
import re
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Tuple

import crc32c

from sok1x.checkpoint import errors
from sok1x.checkpoint.errors import CheckpointError, DamagedError, FormatVersionError
from sok1x.checkpoint.files import shard_names, strict_json
from sok1x.checkpoint.files.open_file import read_bounded
from sok1x.checkpoint.files.shard_header import expect_names, integer, layout, text
from sok1x.cuda_kernels import admission
from sok1x.graph_ops.stores.placement import Placement

NAME = "manifest.json"
FORMAT = "sok1x checkpoint"
VERSIONS = (1, 2)
KEY_DTYPES = ("int64", "int32", "uint32")

_MOST_BYTES = 64 << 20
_OPTIONAL = ("localized", "keys", "strays", "admission")  # of a table; left out where they are None
_END = re.compile(rb',"crc32c":"([0-9a-f]{8})"\}\n\Z')
_TOKEN = re.compile(r"[0-9a-f]{8,64}\Z")


class Part(NamedTuple):
    """One part of a table: what a row of it is, and how its files' names end."""

    dtype: str
    row_shape: Tuple[int, ...]
    suffix: str


class Table(NamedTuple):
    """One table."""

    dim: int
    rows: int
    counts: List[int]
    use_hashtable: bool
    key_dtype: str
    parts: Dict[str, Part]
    localized: Optional[int] = None
    keys: Optional[int] = None
    strays: Optional[List[int]] = None
    admission: Optional[Tuple[int, int]] = None

    @property
    def placement(self) -> Placement:
        """Which rank has which keys."""
        return Placement(self.localized)

    def part_count(self, part: str, rank: int) -> int:
        """Rows that the file of a part has on a rank."""
        if part == shard_names.ADMISSION and self.admission is not None:
            return 1 + (admission.words_of(*self.admission) if self.admission[0] else 0)
        return self.rows - self.counts[rank] if part == shard_names.UNUSED else self.counts[rank]


class File(NamedTuple):
    """Length and checksum of one file."""

    bytes: int
    crc32c: int


class Manifest(NamedTuple):
    """What a checkpoint consists of."""

    token: str
    step: int
    ranks: int
    written: int
    tables: Dict[str, Table]
    files: Dict[str, File]

    @property
    def version(self) -> int:
        """The least version of the format that has all of this."""
        return 2 if any(table.admission is not None for table in self.tables.values()) else 1

    def shard_file(self, table: str, part: str, rank: int) -> str:
        """The name, in the checkpoint's folder, of the file that holds a part of a table on a rank."""
        return shard_names.file_name(table, rank, self.ranks, self.tables[table].parts[part].suffix)

    def shard_files(self) -> Iterator[Tuple[str, str, str, int]]:
        """(file name, table, part, rank) of every shard file."""
        for name, table in self.tables.items():
            for part in table.parts:
                for rank in range(self.ranks):
                    yield self.shard_file(name, part, rank), name, part, rank

    def other_files(self) -> List[str]:
        """Names of the files that are not ours, but TensorFlow's."""
        return sorted(set(self.files) - {name for name, _, _, _ in self.shard_files()})


def write(folder: str, manifest: Manifest) -> None:
    """Writes it into a checkpoint's folder, in one step. Raises CheckpointError."""
    for name, table in manifest.tables.items():
        expect_names(name, *table.parts)
    body = strict_json.dumps(_as_json(manifest))[:-1]
    data = body + ',"crc32c":"{:08x}"}}\n'.format(crc32c.crc32c(body)).encode("ascii")
    if len(data) > _MOST_BYTES:
        raise CheckpointError("The manifest of a checkpoint with {} files takes {} bytes, and at most {} can be "
                              "read.".format(len(manifest.files), len(data), _MOST_BYTES))
    path = os.path.join(folder, NAME)
    partial = path + ".tmp"
    try:
        with open(partial, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.rename(partial, path)
    except OSError as error:
        raise errors.of_write(error, path, len(data)) from None


def read(folder: str) -> Manifest:
    """The manifest in a checkpoint's folder.

    Raises:
        DamagedError: There is none, or it is not what `write` gives.
        FormatVersionError: It is of another version.
    """
    path = os.path.join(folder, NAME)
    data = read_bounded(path, "the checkpoint's manifest", _MOST_BYTES)
    try:
        fields = strict_json.loads(data)
        if fields.get("format") != FORMAT:
            raise ValueError("its format is {!a:.80}, and '{}' is expected".format(fields.get("format"), FORMAT))
        _check_version(fields.get("version"), path)
        end = _END.search(data)
        if not end or int(end.group(1), 16) != crc32c.crc32c(data[:end.start()]):
            raise ValueError("its checksum does not match")
        found = _checked(fields)
        integer(fields["version"], found.version, found.version, "version")
        return found
    except ValueError as error:
        raise DamagedError("{} is damaged: {}.".format(path, error)) from None


def _check_version(version: Any, path: str) -> None:
    if integer(version, 1, 2 ** 31, "version") not in VERSIONS:
        raise FormatVersionError("{} is of checkpoint format {}, and this sok1x reads formats {}: use the sok1x that "
                                 "wrote it, or a later one.".format(path, version, " and ".join(map(str, VERSIONS))))


def _as_json(manifest: Manifest) -> Dict[str, Any]:
    return {
        "format": FORMAT, "version": manifest.version, "token": manifest.token, "step": manifest.step,
        "ranks": manifest.ranks, "written": manifest.written,
        "tables": {name: _table_as_json(table) for name, table in manifest.tables.items()},
        "files": {name: dict(file._asdict()) for name, file in manifest.files.items()}}


def _table_as_json(table: Table) -> Dict[str, Any]:
    fields = dict(table._asdict(), parts={part: dict(value._asdict()) for part, value in table.parts.items()})
    return {name: value for name, value in fields.items() if value is not None}


def _fields(value: Any, names: Tuple[str, ...], what: str) -> List[Any]:
    """Values of an object that has exactly these names, in their order."""
    if not isinstance(value, dict) or set(value) != set(names):
        raise ValueError("{} is not an object of {}".format(what, ", ".join(names)))
    return [value[name] for name in names]


def _objects(value: Any, what: str) -> Dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("{} is not an object".format(what))
    return value


def _checked(fields: Dict[str, Any]) -> Manifest:
    names = ("token", "step", "ranks", "written", "tables", "files")
    token, step, ranks, written, tables, files = _fields(
        {name: value for name, value in fields.items() if name not in ("format", "version", "crc32c")}, names, "it")
    if not isinstance(token, str) or not _TOKEN.match(token):
        raise ValueError("token is {!a:.80}, and 8 to 64 hexadecimal digits are expected".format(token))
    ranks = integer(ranks, 1, 1 << 20, "ranks")
    manifest = Manifest(
        token, integer(step, 0, 2 ** 63 - 1, "step"), ranks, integer(written, 0, 2 ** 40, "written"),
        {text(name, "a table's name"): _table(name, value, ranks)
         for name, value in _objects(tables, "tables").items()},
        {_file_name(name): _file(name, value) for name, value in _objects(files, "files").items()})
    # One by one: a made-up manifest can claim far more ranks times parts than it lists files.
    for file, table, _, _ in manifest.shard_files():
        if file not in manifest.files:
            raise ValueError("it lists no file {:.300} of table '{}'".format(file, table))
    return manifest


def _table(name: str, value: Any, ranks: int) -> Table:
    what = "table '{:.80}'".format(name)
    localized, keys, strays, admits = (value.get(field) if isinstance(value, dict) else None for field in _OPTIONAL)
    there = tuple(field for field in Table._fields if field not in _OPTIONAL or (
        isinstance(value, dict) and value.get(field) is not None))
    dim, rows, counts, use_hashtable, key_dtype, parts = _fields(value, there, what)[:6]
    rows = integer(rows, 0, 2 ** 48, "rows of " + what)
    if not isinstance(counts, list) or len(counts) != ranks:
        raise ValueError("counts of {} is not a list with a number for each of {} ranks".format(what, ranks))
    if not isinstance(use_hashtable, bool) or key_dtype not in KEY_DTYPES:
        raise ValueError("{} has use_hashtable {!a:.80} and key_dtype {!a:.80}, and true or false and one of {} are "
                         "expected".format(what, use_hashtable, key_dtype, ", ".join(KEY_DTYPES)))
    table = Table(integer(dim, 1, 1 << 24, "dim of " + what), rows,
                  [integer(count, 0, rows, "a count of " + what) for count in counts], use_hashtable, key_dtype,
                  {text(part, "a part's name"): _part(part, inner, what)
                   for part, inner in _objects(parts, "parts of " + what).items()},
                  None if localized is None else integer(localized, 0, ranks - 1, "localized of " + what),
                  None if keys is None else integer(keys, 1, 2 ** 48, "keys of " + what),
                  admission=_admission(admits, what))
    if strays is not None:
        if not isinstance(strays, list) or len(strays) != ranks or not use_hashtable:
            raise ValueError("strays of {} is not a list with a number for each of {} ranks, of a table with an "
                             "index".format(what, ranks))
        table = table._replace(strays=[integer(stray, 0, count, "a number of strays of " + what)
                                       for stray, count in zip(strays, table.counts)])
    if keys is not None and table.counts != [table.placement.rows_of(keys, rank, ranks) for rank in range(ranks)]:
        raise ValueError("counts of {} are not those of {} keys, {}".format(what, keys, table.placement.label()))
    _check_parts(table, what)
    return table


def _check_parts(table: Table, what: str) -> None:
    """Raises ValueError unless it has the parts that every table has, and that of its admission if it has one."""
    counts_of = table.parts.get(shard_names.ADMISSION)
    if (counts_of and counts_of[:2]) != (("int64", ()) if table.admission else None):
        raise ValueError("{} has admission {}, and {} is its part 'admission'".format(what, table.admission, counts_of))
    suffixes = {part.suffix for part in table.parts.values()}
    if len(suffixes) != len(table.parts):
        raise ValueError("two parts of {} are in the same files".format(what))
    for part, dtype, row_shape in ((shard_names.KEYS, "int64", ()), (shard_names.ROWS, "float32", (table.dim,))):
        found = table.parts.get(part)
        # Rows that no lookup reads may be of any dtype.
        if found is None or found.row_shape != row_shape or (found.dtype != dtype and (
                part == shard_names.KEYS or table.keys is None)):
            raise ValueError("{} has no part '{}' of {} {}".format(what, part, dtype, list(row_shape)))


def admission_of(value: Any) -> Optional[Tuple[int, int]]:
    """A table's `admission` as JSON has it, or a rank's outcome."""
    return None if value is None else (int(value[0]), int(value[1]))


def _admission(value: Any, what: str) -> Optional[Tuple[int, int]]:
    if value is None:
        return None
    what = "admission of " + what
    if not isinstance(value, list) or len(value) != 2:
        raise ValueError("{} is {!a:.80}, and [counters, bits] is expected".format(what, value))
    width, bits = (integer(number, 0, 2 ** 40, what) for number in value)
    if (width, bits) != (0, 0) and (width < 8 or width & (width - 1) or bits not in admission.BITS):
        raise ValueError("{} is {!a:.80}, and a power of two from 8 on and 8, 16 or 32 bits are expected".format(
            what, value))
    return width, bits


def _part(name: str, value: Any, what: str) -> Part:
    what = "part {!a:.80} of {}".format(name, what)
    dtype, row_shape, suffix = _fields(value, Part._fields, what)
    try:
        dtype, row_shape = layout(dtype, row_shape)
    except ValueError as error:
        raise ValueError("{}: {}".format(what, error)) from None
    if not isinstance(suffix, str) or not shard_names.fits(name, suffix):
        raise ValueError("{} has files that end with {!a:.80}".format(what, suffix))
    return Part(dtype, row_shape, suffix)


def _file_name(name: str) -> str:
    # Nothing that leads out of the folder, or to a file that is not part of the checkpoint.
    if not 1 <= len(name.encode()) <= 255 or "/" in name or name in (".", "..", NAME):
        raise ValueError("it lists a file {!a:.80}, which is not the name of a file in its folder".format(name))
    return name


def _file(name: str, value: Any) -> File:
    what = "file '{:.80}'".format(name)
    size, checksum = _fields(value, File._fields, what)
    return File(integer(size, 0, 2 ** 63 - 1, "bytes of " + what),
                integer(checksum, 0, 2 ** 32 - 1, "crc32c of " + what))

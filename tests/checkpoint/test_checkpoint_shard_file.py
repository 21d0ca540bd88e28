"""A shard file gives back what was written, chunk sizes whatever they are, and no flipped byte goes unnoticed."""
import errno
import os

import numpy as np
import pytest

from sok1x.checkpoint.errors import CheckpointError, DamagedError, NoSpaceError, WriteError
from sok1x.checkpoint.files import manifest, shard_header
from sok1x.checkpoint.files.manifest import File, Manifest, Part, Table
from sok1x.checkpoint.files.shard_header import Header, rows_per_block
from sok1x.checkpoint.files.shard_reader import ShardFileReader
from sok1x.checkpoint.files.shard_writer import ShardFileWriter


def header_of(rows, part="rows", block_bytes=4096):
    return Header("00ff", 3, "a/b", part, 1, 4, rows.dtype.name, rows.shape[1:], len(rows),
                  rows_per_block(rows.dtype.name, rows.shape[1:], block_bytes))


def write(path, rows, chunks=(), part="rows", block_bytes=4096):
    """Writes rows in chunks that end at `chunks`; what close gives."""
    writer = ShardFileWriter(str(path), header_of(rows, part, block_bytes))
    for first, end in zip([0] + list(chunks), list(chunks) + [len(rows)]):
        writer.write(rows[first:end])
    return writer.close()


def test_a_header_that_the_system_takes_by_pieces(tmp_path, monkeypatch):
    """As it may: it then says how much it has taken."""
    rows, stock = np.arange(7, dtype=np.float32), os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, offset: stock(fd, bytes(data)[:5], offset))
    write(tmp_path / "file", rows)
    with ShardFileReader(str(tmp_path / "file"), "a/b") as reader:
        assert reader.read(0, 7).tolist() == rows.tolist()


@pytest.mark.parametrize("dtype", shard_header.DTYPES)
@pytest.mark.parametrize("row_shape", [(), (1,), (3,), (2, 5), (2048,)])
def test_rows_come_back(tmp_path, seed, dtype, row_shape):
    random = np.random.RandomState(seed % 2 ** 32)
    size = np.dtype(dtype).itemsize * int(np.prod((700,) + row_shape))
    rows = np.frombuffer(random.bytes(size), dtype).reshape((700,) + row_shape)
    chunks = sorted(random.randint(0, 701, 5))
    sums = write(tmp_path / "file", rows, chunks)
    with ShardFileReader(str(tmp_path / "file"), "a/b") as reader:
        assert (reader.bytes, reader.crc32c) == (sums["bytes"], sums["crc32c"])
        assert reader.bytes == os.path.getsize(str(tmp_path / "file"))
        assert (reader.header.dtype, reader.header.row_shape, reader.header.count) == (dtype, row_shape, 700)
        assert reader.read(0, 700).tobytes() == rows.tobytes()
        for _ in range(20):
            first, end = sorted(random.randint(0, 701, 2))
            part = reader.read(first, end - first)
            assert part.shape == (end - first,) + row_shape and part.tobytes() == rows[first:end].tobytes()


@pytest.mark.parametrize("table, part, words", [
    ("t" * 1025, "rows", "Cannot save table '{}': its name has 1025 characters, and at most 1024 can".format("t" * 80)),
    ("t", "slot:" + "s" * 1020, "Cannot save table 't': the name of its part 'slot:ss.* has 1025 characters, and at")],
    ids=["table", "part"])
def test_names_that_no_reader_takes_are_refused(tmp_path, table, part, words):
    """By the file, and by the manifest."""
    def made(table, part):
        parts = {"keys": Part("int64", (), "keys"), "rows": Part("float32", (1,), "rows")}
        parts.setdefault(part, Part("float32", (1,), "slot-0"))
        whole = Manifest("0123456789abcdef", 3, 1, 0, {table: Table(1, 1, [1], True, "int64", parts)}, {})
        return (Header(whole.token, 3, table, part, 0, 1, "float32", (1,), 1, 512),
                whole._replace(files={file: File(1, 1) for file, _, _, _ in whole.shard_files()}))

    header, whole = made(table, part)
    for save in (lambda: shard_header.encode(header), lambda: manifest.write(str(tmp_path), whole)):
        with pytest.raises(CheckpointError, match=words):
            save()
    assert not os.listdir(str(tmp_path))
    header, whole = made(table[:1024], part[:1024])
    assert shard_header.decode(shard_header.encode(header), "it") == header
    manifest.write(str(tmp_path), whole)
    assert manifest.read(str(tmp_path)) == whole


@pytest.mark.parametrize("count", [0, 1, 511, 512, 513, 1024])
def test_counts_around_a_block(tmp_path, count):
    rows = np.arange(count, dtype=np.int64)
    write(tmp_path / "file", rows, part="keys")
    with ShardFileReader(str(tmp_path / "file"), "a/b") as reader:
        assert reader.header.blocks == -(-count // 512)
        assert reader.header.key_range == ((0, count - 1) if count else None)
        assert (reader.read(0, count) == rows).all()


def test_the_file_is_the_same_whatever_the_chunks(tmp_path, seed):
    rows = np.random.RandomState(seed).standard_normal((20000, 64)).astype(np.float32)
    write(tmp_path / "one", rows, block_bytes=shard_header.BLOCK_BYTES)
    write(tmp_path / "two", rows, (7, 7, 19000), block_bytes=shard_header.BLOCK_BYTES)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_the_range_of_keys_holds_extremes(tmp_path):
    keys = np.array([5, -2 ** 63, 2 ** 63 - 1, 0], np.int64)
    write(tmp_path / "file", keys, (1, 2), part="keys")
    with ShardFileReader(str(tmp_path / "file"), "a/b") as reader:
        assert reader.header.key_range == (-2 ** 63, 2 ** 63 - 1)
        assert (reader.read(0, 4) == keys).all()


def test_rows_that_are_not_contiguous(tmp_path):
    rows = np.arange(600, dtype=np.float32).reshape(6, 100).T[::2]
    write(tmp_path / "file", rows)
    with ShardFileReader(str(tmp_path / "file"), "a/b") as reader:
        assert (reader.read(0, 50) == rows).all()


@pytest.mark.parametrize("rows, words", [
    (np.zeros((1, 4), np.float64), "float64"), (np.zeros((1, 5), np.float32), r"\[5\]"),
    (np.zeros((11, 4), np.float32), "takes 10 more"), (np.zeros(4, np.float32), r"\[\]")])
def test_wrong_rows_are_refused(tmp_path, rows, words):
    writer = ShardFileWriter(str(tmp_path / "file"), header_of(np.zeros((10, 4), np.float32)))
    with pytest.raises(ValueError, match=words):
        writer.write(rows)
    with pytest.raises(ValueError, match="lacks 10 of 10"):
        writer.close()
    writer.abort()
    assert not os.listdir(str(tmp_path))


def read_all(path):
    with ShardFileReader(str(path), "a/b") as reader:
        reader.read(0, reader.header.count)
        return reader.crc32c


def test_every_flipped_byte_is_seen(tmp_path, seed):
    rows = np.random.RandomState(seed).standard_normal((300, 5)).astype(np.float32)
    sums = write(tmp_path / "file", rows)
    data = (tmp_path / "file").read_bytes()
    assert read_all(tmp_path / "file") == sums["crc32c"]
    with open(str(tmp_path / "file"), "r+b", buffering=0) as file:
        for offset in range(len(data)):
            os.pwrite(file.fileno(), bytes([data[offset] ^ (1 << offset % 8)]), offset)
            with pytest.raises(CheckpointError, match=r"file \(table 'a/b'\)"):
                read_all(tmp_path / "file")
            os.pwrite(file.fileno(), data[offset:offset + 1], offset)
    assert read_all(tmp_path / "file") == sums["crc32c"]


def test_other_content_has_another_checksum(tmp_path):
    """A crc over data and its own crc would be the same for all data."""
    sums = {write(tmp_path / str(value), np.full((300, 5), value, np.float32))["crc32c"] for value in range(20)}
    assert len(sums) == 20


def test_every_length_that_is_too_short_is_seen(tmp_path):
    write(tmp_path / "file", np.ones((300, 5), np.float32))
    size = os.path.getsize(str(tmp_path / "file"))
    for length in list(range(0, size, 97)) + [size - 1]:
        os.truncate(str(tmp_path / "file"), size)
        (tmp_path / "cut").write_bytes((tmp_path / "file").read_bytes()[:length])
        with pytest.raises(DamagedError, match=r"cut \(table 'a/b'\) is (cut short|damaged)"):
            read_all(tmp_path / "cut")


def test_a_full_disk_names_path_and_bytes(tmp_path, monkeypatch):
    rows = np.zeros((1000, 5), np.float32)
    real, written = os.write, []

    def full(fd, data):
        if sum(written) > 10000:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written.append(real(fd, data[:3000]))
        return written[-1]

    writer = ShardFileWriter(str(tmp_path / "file"), header_of(rows))
    monkeypatch.setattr(os, "write", full)
    with pytest.raises(NoSpaceError) as error:
        writer.write(rows)
    monkeypatch.undo()
    wanted = 4096 + 20000 + 4 * 6
    assert (error.value.path, error.value.wanted) == (str(tmp_path / "file"), wanted) and error.value.free >= 0
    assert str(tmp_path / "file") in str(error.value) and "{} bytes".format(wanted) in str(error.value)
    writer.abort()
    assert not os.listdir(str(tmp_path))


def test_a_disk_that_is_full_at_the_start_leaves_nothing(tmp_path, monkeypatch):
    def full(fd, data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(NoSpaceError):
        ShardFileWriter(str(tmp_path / "file"), header_of(np.zeros((10, 4), np.float32)))
    assert not os.listdir(str(tmp_path))


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(WriteError, match="none/file: No such file"):
        ShardFileWriter(str(tmp_path / "none" / "file"), header_of(np.zeros((10, 4), np.float32)))


def test_a_file_that_is_there_is_not_overwritten(tmp_path):
    (tmp_path / "file").write_bytes(b"kept")
    with pytest.raises(WriteError, match="file: File exists"):
        ShardFileWriter(str(tmp_path / "file"), header_of(np.zeros((10, 4), np.float32)))
    assert (tmp_path / "file").read_bytes() == b"kept"

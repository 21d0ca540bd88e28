"""How the attacks are made: a sound checkpoint, and changes after which all checksums are right that can be."""
import contextlib
import json
import os
import struct
import sys

import crc32c
import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "checkpoint"))

import made_checkpoints  # noqa: E402

from sok1x.checkpoint.errors import CheckpointError  # noqa: E402
from sok1x.checkpoint.files import manifest, shard_header  # noqa: E402
from sok1x.checkpoint.files.shard_reader import ShardFileReader  # noqa: E402

STEP, RANKS = 5, 2
KEYS, ROWS, SLOT = ("user%2Fid.0-of-2." + suffix for suffix in ("keys", "rows", "slot-0"))
DIRECT = "item.1-of-2.keys"
INDEX, DATA = "model.ckpt-5.index", "model.ckpt-5.data-00000-of-00001"
USER, ITEM, PART = "user/id", "item", "slot:user/id/Adam"


def base_tables():
    """The tables of the sound checkpoint, always with the same content."""
    random = np.random.RandomState(20)
    user = made_checkpoints.hash_table(random, USER, RANKS, 60, 16, 80, ())
    user.rows = max(user.rows, *(len(keys) for keys in user.keys))
    # A number a row, so that its file is small: most attacks are on its header.
    user.parts[PART] = [random.standard_normal(len(keys)).astype(np.float32) for keys in user.keys]
    return [made_checkpoints.without_stamps(user),
            made_checkpoints.without_stamps(made_checkpoints.direct_table(random, ITEM, RANKS, 12, 4))]


def make_base(directory):
    """Saves the sound checkpoint below `directory`; returns its folder."""
    return made_checkpoints.save(directory, base_tables(), STEP, token="0123456789abcdef", written=1600000000)


def read(folder, file):
    with open(os.path.join(folder, file), "rb") as stream:
        return stream.read()


def write(folder, file, data):
    with open(os.path.join(folder, file), "wb") as stream:
        stream.write(data)


def seal(text):
    """The bytes of a manifest whose JSON, without its checksum, is `text`."""
    body = text.rstrip()[:-1].encode("utf-8", "surrogatepass")
    return body + ',"crc32c":"{:08x}"}}\n'.format(crc32c.crc32c(body)).encode()


def manifest_text(folder):
    fields = json.loads(read(folder, manifest.NAME))
    del fields["crc32c"]
    return json.dumps(fields, sort_keys=True)


def change_manifest(folder, change):
    """Changes the manifest's fields; its checksum is right again."""
    fields = json.loads(manifest_text(folder))
    change(fields)
    write(folder, manifest.NAME, seal(json.dumps(fields, sort_keys=True)))


def record(folder, file):
    """Makes the manifest say of a shard file what it now is, where it is one that can be opened."""
    with contextlib.suppress(CheckpointError), ShardFileReader(os.path.join(folder, file), "any") as reader:
        sums = {"bytes": reader.bytes, "crc32c": reader.crc32c}
        change_manifest(folder, lambda fields: fields["files"].update({file: sums}))


def with_header(data, text, version=1, length=None):
    """A shard file's bytes with another header JSON; the header's checksum is right."""
    old = shard_header.block_length(data[:16], "base")
    size = len(text) if length is None else length
    block = shard_header.MAGIC + struct.pack("<II", version, size) + text
    block = block.ljust(-(-(len(block) + 4) // 4096) * 4096 - 4, b"\0")
    return block + struct.pack("<I", crc32c.crc32c(block)) + data[old:]


def header_text(folder, file):
    data = read(folder, file)
    return data[16:16 + struct.unpack("<I", data[12:16])[0]].decode().rstrip()


def forge(folder, file, text, **options):
    """Replaces a shard file's header JSON, and makes the manifest believe it."""
    text = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    write(folder, file, with_header(read(folder, file), text, **options))
    record(folder, file)


def forge_fields(folder, file, **fields):
    forge(folder, file, json.dumps(dict(json.loads(header_text(folder, file)), **fields)))


def replace_keys(folder, file, change):
    """Changes the keys in a file of one block; all checksums are right."""
    data = bytearray(read(folder, file))
    first = shard_header.block_length(bytes(data[:16]), file)
    payload = data[first:-8]
    data[first:-8] = change(np.frombuffer(bytes(payload), np.int64).copy()).tobytes()
    data[-8:-4] = struct.pack("<I", crc32c.crc32c(bytes(data[first:-8])))
    data[-4:] = struct.pack("<I", crc32c.crc32c(bytes(data[-8:-4])))
    write(folder, file, bytes(data))
    record(folder, file)


def flip(folder, file, offset):
    data = bytearray(read(folder, file))
    data[offset] ^= 0x10
    write(folder, file, bytes(data))

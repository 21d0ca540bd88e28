"""Damage to a checkpoint of counted_model on two ranks: each damage is a function of its folder, and names a file."""
import json
import os
import random
import shutil
from typing import Callable, NamedTuple, Optional

import counted_model
import crc32c

STEP = 3
PARTS = ("keys", "rows", "stamps", "slot-0")
MANIFEST, INDEX, DATA = "manifest.json", "model.ckpt-3.index", "model.ckpt-3.data-00000-of-00001"


class Damage(NamedTuple):
    """What `act(folder, other)` does to `file`; `other` is another save's folder. `table` is the file's, or None."""

    act: Callable[[str, str], None]
    file: str
    table: Optional[str]


def shard(table, rank, part):
    return "{}.{}-of-2.{}".format(table, rank, part)


def read(path):
    with open(path, "rb") as file:
        return file.read()


def write(path, data):
    with open(path, "wb") as file:
        file.write(data)


def _flip(file, region):
    """One bit, somewhere in a region: of a shard file by its structure, of others by its place."""
    def act(folder, _):
        path = os.path.join(folder, file)
        data = bytearray(read(path))
        header, end = 4096, len(data)
        shards = {"header": (0, header - 4), "header sum": (header - 4, header), "payload": (header, end - 8),
                  "trailer": (end - 8, end - 4), "trailer sum": (end - 4, end)}
        others = {"begin": (0, end // 3), "middle": (end // 3, 2 * end // 3), "end": (2 * end // 3, end)}
        first, last = (others if region in others else shards)[region]
        data[random.randrange(first, last)] ^= 1 << random.randrange(8)
        write(path, data)
    return act


def _cut(file, part_left):
    def act(folder, _):
        path = os.path.join(folder, file)
        os.truncate(path, min(int(os.path.getsize(path) * part_left), os.path.getsize(path) - 1))
    return act


def _missing(file):
    return lambda folder, _: os.unlink(os.path.join(folder, file))


def _of_another_run(file):
    return lambda folder, other: shutil.copy(os.path.join(other, file), os.path.join(folder, file))


def _of_another(file, source):
    return lambda folder, _: shutil.copy(os.path.join(folder, source), os.path.join(folder, file))


def _longer(file):
    def act(folder, _):
        with open(os.path.join(folder, file), "ab") as opened:
            opened.write(b"\0")
    return act


def _later_manifest(folder, _):
    path = os.path.join(folder, MANIFEST)
    fields = json.loads(read(path).decode())
    del fields["crc32c"]
    body = json.dumps(dict(fields, version=3)).encode()[:-1]
    write(path, body + ',"crc32c":"{:08x}"}}\n'.format(crc32c.crc32c(body)).encode())


def _all():
    """{name: Damage}: every kind of file, of both tables and both ranks in turn."""
    made = {}
    for number, part in enumerate(PARTS):
        table, rank = (counted_model.HASHED, counted_model.DIRECT)[number % 2], number // 2 % 2
        file = shard(table, rank, part)
        for region in ("header", "header sum", "payload", "trailer", "trailer sum"):
            made["flip {} {}".format(part, region)] = Damage(_flip(file, region), file, table)
        for name, left in (("last byte", 1.0), ("half", 0.5), ("all", 0.0)):
            made["cut {} {}".format(part, name)] = Damage(_cut(file, left), file, table)
        made["missing " + part] = Damage(_missing(file), file, table)
        made["another run's " + part] = Damage(_of_another_run(file), file, table)
        made["another rank's " + part] = Damage(_of_another(file, shard(table, 1 - rank, part)), file, table)
        made["longer " + part] = Damage(_longer(file), file, table)
    for what, file in (("index", INDEX), ("data", DATA), ("manifest", MANIFEST)):
        for region in ("begin", "middle", "end"):
            made["flip {} {}".format(what, region)] = Damage(_flip(file, region), file, None)
        for name, left in (("last byte", 1.0), ("half", 0.5), ("all", 0.0)):
            made["cut {} {}".format(what, name)] = Damage(_cut(file, left), file, None)
        if what != "manifest":
            made["missing " + what] = Damage(_missing(file), file, None)
    made["another run's data"] = Damage(_of_another_run(DATA), DATA, None)
    # Its files are not those of the save that it describes; the first of them that a rank opens is found.
    made["another run's manifest"] = Damage(_of_another_run(MANIFEST), "", None)
    made["later manifest"] = Damage(_later_manifest, MANIFEST, None)
    return made


DAMAGES = _all()

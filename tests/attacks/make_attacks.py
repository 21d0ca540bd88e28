"""The attacks: functions that change a sound checkpoint's folder (`forging.make_base`), by name.

They are made when the tests run and removed after: some are links out of the folder, to devices, on which programs
that read files by path would hang. Whoever makes such files knows the format: checksums are right wherever the attack
is not on them.
"""
import json
import os
import shutil
import struct

import crc32c
import numpy as np
from forging import (
    DATA,
    DIRECT,
    INDEX,
    ITEM,
    KEYS,
    PART,
    ROWS,
    SLOT,
    USER,
    change_manifest,
    flip,
    forge,
    forge_fields,
    header_text,
    manifest_text,
    read,
    record,
    replace_keys,
    seal,
    write,
)

from sok1x.checkpoint.files import manifest

# name -> (what it does to a checkpoint's folder, the file and the table that the error must name)
ATTACKS = {}


def attack(name, file, table=None):
    """Registers a function that changes a checkpoint's folder."""
    def register(change):
        assert name not in ATTACKS
        ATTACKS[name] = (change, file, table)
        return change
    return register


# ---------------------------------------------------------------- flipped bytes, and files cut short or missing

for _file, _kind in ((KEYS, "keys"), (ROWS, "rows"), (SLOT, "slot")):
    for _region, _offset in (("magic", 3), ("header", 40), ("padding", 3000), ("header-sum", 4094), ("payload", 4100),
                             ("trailer", -8), ("trailer-sum", -2)):
        attack("flip-{}-{}".format(_kind, _region), _file, USER)(
            lambda folder, file=_file, offset=_offset: flip(folder, file, offset))
    attack("missing-" + _kind, _file, USER)(lambda folder, file=_file: os.unlink(os.path.join(folder, file)))
    for _left in (0, 10, 100, 4096, -1):
        attack("cut-{}-{}".format(_kind, _left), _file, USER)(
            lambda folder, file=_file, left=_left: write(folder, file, read(folder, file)[:left]))
for _file, _kind in ((INDEX, "index"), (DATA, "data")):
    attack("flip-tensorflow-" + _kind, _file)(lambda folder, file=_file: flip(folder, file, 100))
    attack("cut-tensorflow-" + _kind, _file)(lambda folder, file=_file: write(folder, file, read(folder, file)[:-1]))
    attack("missing-tensorflow-" + _kind, _file)(lambda folder, file=_file: os.unlink(os.path.join(folder, file)))
for _offset in (0, 50, 700, -10, -2):
    attack("flip-manifest-{}".format(_offset), manifest.NAME)(
        lambda folder, offset=_offset: flip(folder, manifest.NAME, offset))
for _left in (0, 1, 300, -1):
    attack("cut-manifest-{}".format(_left), manifest.NAME)(
        lambda folder, left=_left: write(folder, manifest.NAME, read(folder, manifest.NAME)[:left]))


@attack("longer-rows", ROWS, USER)
def _(folder):
    write(folder, ROWS, read(folder, ROWS) + b"\0")


# ---------------------------------------------------------------- sound files in the wrong place

@attack("shard-of-another-run", ROWS, USER)
def _(folder):
    forge_fields(folder, ROWS, token="fedcba9876543210")


@attack("shard-of-another-step", ROWS, USER)
def _(folder):
    forge_fields(folder, ROWS, step=6)


@attack("shard-of-another-rank", KEYS, USER)
def _(folder):
    shutil.copy(os.path.join(folder, "user%2Fid.1-of-2.keys"), os.path.join(folder, KEYS))
    record(folder, KEYS)
    change_manifest(folder, lambda fields: fields["tables"][USER].update(
        counts=[fields["tables"][USER]["counts"][1]] * 2))


@attack("shard-of-another-table", "item.0-of-2.rows", ITEM)
def _(folder):
    shutil.copy(os.path.join(folder, ROWS), os.path.join(folder, "item.0-of-2.rows"))
    record(folder, "item.0-of-2.rows")


@attack("slot-as-rows", ROWS, USER)
def _(folder):
    shutil.copy(os.path.join(folder, SLOT), os.path.join(folder, ROWS))
    record(folder, ROWS)


@attack("rows-of-equal-make-but-other-content", ROWS, USER)
def _(folder):
    data = bytearray(read(folder, ROWS))
    data[4200] ^= 1
    data[-8:-4] = struct.pack("<I", crc32c.crc32c(bytes(data[4096:-8])))
    data[-4:] = struct.pack("<I", crc32c.crc32c(bytes(data[-8:-4])))
    write(folder, ROWS, bytes(data))


@attack("key-of-another-rank", KEYS, USER)
def _(folder):
    replace_keys(folder, KEYS, lambda keys: np.concatenate([keys[:5], keys[5:6] + 1, keys[6:]]))


@attack("key-out-of-its-range", KEYS, USER)
def _(folder):
    replace_keys(folder, KEYS, lambda keys: np.concatenate([keys[:-1], [10 ** 12]]))


@attack("row-numbers-out-of-order", DIRECT, ITEM)
def _(folder):
    replace_keys(folder, DIRECT, lambda keys: keys[::-1].copy())


# ---------------------------------------------------------------- headers

_HEADERS = {
    "count-negative": {"count": -1}, "count-huge": {"count": 2 ** 48}, "count-64-bits": {"count": 2 ** 64 - 1},
    "count-more": {"count": 10 ** 9}, "count-none": {"count": None}, "count-true": {"count": True},
    "count-text": {"count": "200"}, "count-list": {"count": [1]},
    "product-overflows": {"count": 2 ** 47, "row_shape": [2 ** 24]},
    "dtype-O": {"dtype": "O"}, "dtype-object": {"dtype": "object"}, "dtype-V8": {"dtype": "V8"},
    "dtype-struct": {"dtype": "f4,O"}, "dtype-list": {"dtype": ["float32"]}, "dtype-big-endian": {"dtype": ">f4"},
    "dtype-float64": {"dtype": "float64"}, "dtype-long": {"dtype": "float32" * 100},
    "shape-negative": {"row_shape": [-16]}, "shape-zero": {"row_shape": [0]}, "shape-huge": {"row_shape": [2 ** 62]},
    "shape-overflows": {"row_shape": [2 ** 26, 2 ** 26, 2 ** 26]}, "shape-many": {"row_shape": [1] * 9},
    "shape-text": {"row_shape": "16"}, "shape-other": {"row_shape": [1]}, "shape-object": {"row_shape": {}},
    "block-rows-0": {"block_rows": 0}, "block-rows-negative": {"block_rows": -5},
    "block-rows-1": {"block_rows": 1}, "block-rows-huge": {"block_rows": 2 ** 40},
    "rank-beyond": {"rank": 2}, "rank-negative": {"rank": -1}, "ranks-0": {"ranks": 0}, "ranks-other": {"ranks": 4},
    "step-negative": {"step": -1}, "table-other": {"table": "other"}, "table-empty": {"table": ""},
    "table-number": {"table": 5}, "table-escape": {"table": "\x1b[2J"}, "table-long": {"table": "a" * 2000},
    "part-other": {"part": "slot:x"}, "token-number": {"token": 5}, "field-more": {"more": 1},
    "key-range-of-slots": {"key_range": [0, 1]},
}
for _name, _fields in _HEADERS.items():
    attack("header-" + _name, SLOT, USER)(lambda folder, fields=_fields: forge_fields(folder, SLOT, **fields))
for _name, _range in (("reversed", [5, 1]), ("null", None), ("one", [1]), ("text", "01"), ("huge", [0, 2 ** 63])):
    attack("header-key-range-" + _name, KEYS, USER)(
        lambda folder, value=_range: forge_fields(folder, KEYS, key_range=value))

_TEXTS = {
    "empty": "  ", "no-json": "[[[", "list": "[]", "number": "17", "null": "null",
    "nested": "[" * 60000, "nested-objects": '{"a":' * 10000,
    "bad-utf8": b'{"token":"\xff\xfe"}', "bom": '\ufeff{"token":1}', "cut": '{"token":"0123',
}
for _name, _text in _TEXTS.items():
    attack("header-json-" + _name, SLOT, USER)(lambda folder, text=_text: forge(folder, SLOT, text))
_NUMBERS = {"nan": "NaN", "infinity": "-Infinity", "fraction": "100.0", "exponent": "1e999", "digits": "9" * 50000,
            "surrogate": '"\\ud800"', "twice": '100,"count":101'}
for _name, _number in _NUMBERS.items():
    attack("header-json-" + _name, SLOT, USER)(lambda folder, number=_number: forge(
        folder, SLOT, json.dumps(dict(json.loads(header_text(folder, SLOT)), count=12345)).replace("12345", number)))
for _length in (0, 1, 60000, 2 ** 16 + 1, 2 ** 31, 2 ** 32 - 1):
    attack("header-length-{}".format(_length), SLOT, USER)(
        lambda folder, length=_length: forge(folder, SLOT, header_text(folder, SLOT), length=length))
for _version in (0, 2, 2 ** 32 - 1):
    attack("header-version-{}".format(_version), SLOT, USER)(
        lambda folder, version=_version: forge(folder, SLOT, header_text(folder, SLOT), version=version))


# ---------------------------------------------------------------- manifests

def in_manifest(name, change, table=None):
    attack("manifest-" + name, manifest.NAME, table)(lambda folder: change_manifest(folder, change))


for _name, _fields in {
        "version-3": {"version": 3}, "version-2": {"version": 2}, "version-0": {"version": 0},
        "version-text": {"version": "1"}, "format-other": {"format": "other"}, "step-negative": {"step": -1},
        "step-huge": {"step": 2 ** 63},
        "ranks-0": {"ranks": 0}, "ranks-3": {"ranks": 3}, "ranks-huge": {"ranks": 2 ** 40},
        "ranks-true": {"ranks": True},
        "token-path": {"token": "../../../x"}, "token-long": {"token": "a" * 65}, "written-text": {"written": "now"},
        "tables-list": {"tables": []}, "files-text": {"files": "all"}, "files-none": {"files": {}},
        "field-more": {"more": 0}}.items():
    in_manifest(_name, lambda fields, new=_fields: fields.update(new))
for _number, _path in enumerate(("../model.ckpt-5.index", "/etc/hostname", "a/b", "..", ".", "", manifest.NAME,
                                 "x" * 256, "a\0b", "a\nb")):
    in_manifest("path-{}".format(_number),
                lambda fields, path=_path: fields["files"].update({path: {"bytes": 1, "crc32c": 1}}))
for _name, _fields in {
        "dim-0": {"dim": 0}, "dim-huge": {"dim": 2 ** 40}, "dim-other": {"dim": 8}, "rows-negative": {"rows": -1},
        "rows-huge": {"rows": 2 ** 60}, "rows-fewer": {"rows": 10}, "counts-text": {"counts": "all"},
        "counts-fewer": {"counts": [1]}, "counts-negative": {"counts": [-1, 5]},
        "counts-null": {"counts": [None, None]},
        "use-hashtable-1": {"use_hashtable": 1},
        "key-dtype-O": {"key_dtype": "O"}, "key-dtype-list": {"key_dtype": []},
        "parts-none": {"parts": {}}, "parts-list": {"parts": []}, "field-more": {"more": 0}}.items():
    in_manifest("table-" + _name, lambda fields, new=_fields: fields["tables"][USER].update(new), USER)
for _name, _fields in {
        "dtype-O": {"dtype": "O"}, "dtype-V8": {"dtype": "V8"}, "dtype-null": {"dtype": None},
        "shape-negative": {"row_shape": [-1]}, "shape-overflows": {"row_shape": [2 ** 26, 2 ** 26]},
        "suffix-path": {"suffix": "../x"}, "suffix-other": {"suffix": "rows"},
        "suffix-huge": {"suffix": "slot-9999999"}, "suffix-number": {"suffix": 0}}.items():
    in_manifest("part-" + _name,
                lambda fields, new=_fields: fields["tables"][USER]["parts"][PART].update(new), USER)
for _name, _fields in {"bytes-negative": {"bytes": -1}, "bytes-huge": {"bytes": 2 ** 64 - 1},
                       "bytes-text": {"bytes": ""}, "sum-huge": {"crc32c": 2 ** 32}, "field-more": {"more": 0}}.items():
    in_manifest("file-" + _name, lambda fields, new=_fields: fields["files"][KEYS].update(new))
in_manifest("file-not-listed", lambda fields: fields["files"].pop(ROWS), USER)
in_manifest("part-of-no-kind", lambda fields: fields["tables"][USER]["parts"].update(
    other={"dtype": "float32", "row_shape": [], "suffix": "other"}), USER)
in_manifest("two-parts-one-file", lambda fields: fields["tables"][USER]["parts"].update(
    {"slot:b": dict(fields["tables"][USER]["parts"][PART])}), USER)
in_manifest("table-without-files", lambda fields: fields["tables"].update(other=fields["tables"][USER]), "other")


@attack("manifest-many-ranks-and-parts", manifest.NAME, ITEM)
def _(folder):
    def change(fields):
        fields["ranks"] = 5000
        for table in fields["tables"].values():
            table["counts"] = [0] * 5000
        fields["tables"][USER]["parts"].update({"slot:{}".format(number): {
            "dtype": "float32", "row_shape": [], "suffix": "slot-{}".format(number)} for number in range(1, 1000)})
    change_manifest(folder, change)


for _name, _text in _TEXTS.items():
    attack("manifest-json-" + _name, manifest.NAME)(lambda folder, text=_text: write(
        folder, manifest.NAME, seal(text) if isinstance(text, str) else text))
for _name, _number in _NUMBERS.items():
    attack("manifest-json-" + _name, manifest.NAME)(lambda folder, number=_number: write(
        folder, manifest.NAME, seal(manifest_text(folder).replace("1600000000", number.replace("count", "written")))))


# ---------------------------------------------------------------- links

def link(folder, file, target):
    os.unlink(os.path.join(folder, file))
    os.symlink(target, os.path.join(folder, file))


for _name, _target in (("out", "/etc/hostname"), ("to-itself", ROWS), ("to-a-device", "/dev/zero"), ("to-nothing", "x"),
                       ("beside", SLOT), ("to-a-folder", ".")):
    attack("link-" + _name, ROWS, USER)(lambda folder, target=_target: link(folder, ROWS, target))
attack("link-manifest", manifest.NAME)(lambda folder: link(folder, manifest.NAME, "/etc/hostname"))
attack("link-tensorflow", DATA)(lambda folder: link(folder, DATA, "/dev/zero"))


@attack("folder-for-a-file", ROWS, USER)
def _(folder):
    os.unlink(os.path.join(folder, ROWS))
    os.mkdir(os.path.join(folder, ROWS))

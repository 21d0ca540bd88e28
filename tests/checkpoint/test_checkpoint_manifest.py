"""The manifest: what was written is read, anything else is an error."""
import json
import os
import time

import made_checkpoints
import numpy as np
import pytest

from sok1x.checkpoint.errors import CheckpointError, DamagedError
from sok1x.checkpoint.files import manifest, strict_json, writing
from sok1x.checkpoint.files.manifest import File, Manifest, Part, Table


def made(**changes):
    parts = {"keys": Part("int64", (), "keys"), "rows": Part("float32", (8,), "rows"),
             "slot:a/b/Adam": Part("float32", (8,), "slot-0")}
    values = dict(token="0123456789abcdef", step=12, ranks=2, written=1700000000,
                  tables={"a/b": Table(8, 100, [100, 0], True, "uint32", parts)},
                  files={"a%2Fb.{}-of-2.{}".format(rank, part): File(rank * 10 ** 12, 2 ** 32 - 1)
                         for rank in range(2) for part in ("keys", "rows", "slot-0")})
    values["files"]["model.ckpt-12.index"] = File(7, 0)
    return Manifest(**dict(values, **changes))


def test_it_comes_back(tmp_path):
    manifest.write(str(tmp_path), made())
    assert os.listdir(str(tmp_path)) == [manifest.NAME]
    assert manifest.read(str(tmp_path)) == made()
    assert json.loads((tmp_path / manifest.NAME).read_text())["step"] == 12
    assert made().other_files() == ["model.ckpt-12.index"]


def static(**changes):
    """A table of seven rows in all, without a hash table."""
    parts = {"keys": Part("int64", (), "keys"), "rows": Part("int32", (8,), "rows")}
    values = dict(dim=8, rows=4, counts=[4, 3], use_hashtable=False, key_dtype="int64", parts=parts, keys=7)
    files = {"t.{}-of-2.{}".format(rank, part): File(10, 1) for rank in range(2) for part in ("keys", "rows")}
    return made(tables={"t": Table(**dict(values, **changes))}, files=files)


@pytest.mark.parametrize("changes", [{}, dict(localized=1, counts=[0, 7], rows=7)])
def test_tables_with_other_rows_on_each_rank_come_back(tmp_path, changes):
    manifest.write(str(tmp_path), static(**changes))
    assert manifest.read(str(tmp_path)) == static(**changes)


@pytest.mark.parametrize("changes, words", [
    (dict(localized=2), "localized of table 't' is 2, and an integer from 0 to 1"),
    (dict(localized="1"), "localized of table 't' is '1'"),
    (dict(keys=0), "keys of table 't' is 0"),
    (dict(keys=8), r"counts of table 't' are not those of 8 keys, by key"),
    (dict(localized=0), r"counts of table 't' are not those of 7 keys, all rows on rank 0"),
    (dict(keys=None), "no part 'rows' of float32"),
])
def test_tables_whose_rows_cannot_be_there(tmp_path, changes, words):
    manifest.write(str(tmp_path), static(**changes))
    with pytest.raises(DamagedError, match=words):
        manifest.read(str(tmp_path))


@pytest.mark.parametrize("strays, use_hashtable, words", [
    ([1], True, "strays of table 'a/b' is not a list with a number for each of 2 ranks"),
    ([1, 0, 0], True, "strays of table 'a/b' is not a list"),
    ("10", True, "strays of table 'a/b' is not a list"),
    ([1, 0], False, "strays of table 'a/b' is not a list .*, of a table with an"),
    ([101, 0], True, "a number of strays of table 'a/b' is 101"),
])
def test_strays_that_cannot_be_there(tmp_path, strays, use_hashtable, words):
    """How many keys of each rank belong to another: of a table with an index, as many as it has at most."""
    table = made().tables["a/b"]._replace(strays=strays, use_hashtable=use_hashtable)
    manifest.write(str(tmp_path), made(tables={"a/b": table}))
    with pytest.raises(DamagedError, match=words):
        manifest.read(str(tmp_path))


def test_it_replaces_an_older_one(tmp_path):
    manifest.write(str(tmp_path), made())
    manifest.write(str(tmp_path), made(step=13))
    assert manifest.read(str(tmp_path)).step == 13


def test_every_flipped_byte_is_seen(tmp_path):
    manifest.write(str(tmp_path), made())
    path = tmp_path / manifest.NAME
    data = path.read_bytes()
    for offset in range(len(data)):
        path.write_bytes(data[:offset] + bytes([data[offset] ^ (1, 0x20)[offset % 2]]) + data[offset + 1:])
        with pytest.raises(CheckpointError, match="manifest.json"):
            manifest.read(str(tmp_path))


def test_without_one(tmp_path):
    with pytest.raises(DamagedError, match="manifest.json is missing"):
        manifest.read(str(tmp_path))


def outcome(rank, ranks=2, table="t", **changes):
    return dict({"table": table, "rank": rank, "ranks": ranks, "rows": 10, "dim": 4, "used": rank,
                 "use_hashtable": True, "key_dtype": "int64", "parts": {"keys": ["int64", [], "keys"]},
                 "files": {"t.{}".format(rank): {"bytes": 1, "crc32c": 2}}}, **changes)


def test_outcomes_of_all_ranks_make_it():
    made_of = writing.assemble("00ff", 3, [[outcome(0)], [outcome(1)]], {"x": File(3, 4)})
    assert made_of.tables["t"].counts == [0, 1]
    assert made_of.files == {"t.0": File(1, 2), "t.1": File(1, 2), "x": File(3, 4)}


@pytest.mark.parametrize("outcomes, words", [
    ([[outcome(0)], [outcome(1, dim=5)]], "Rank 1 saved table 't' as .*dim=5.*dim=4"),
    ([[outcome(0)], [outcome(1, parts={})]], "Rank 1 saved table 't'"),
    ([[outcome(0)], [outcome(0)]], "Rank 1 saved table 't'"),
    ([[outcome(0)], []], "Only 1 of 2 ranks saved table 't'"),
    ([[], [outcome(1)]], "Rank 1 saved table 't'")])
def test_ranks_that_disagree_are_an_error(outcomes, words):
    with pytest.raises(CheckpointError, match=words):
        writing.assemble("00ff", 3, outcomes, {})


@pytest.mark.parametrize("text", [
    '{"a":1,"a":1}', '{"a":{"b":1,"b":2}}',
    "", "[]", "1", "NaN", '{"a":NaN}', '{"a":Infinity}', '{"a":1.0}', '{"a":1e5}',
    '{"a":18446744073709551616}', '{"a":-9223372036854775809}', '{"a":' + "9" * 10 ** 6 + "}", '{"a":"\\u0000"}',
    '{"\\ud800":1}', '{"a":["\\u202e"]}', '{"a":1}x', "{'a':1}", '{"a":1,}', "[" * 10 ** 6, '{"a":' * 10 ** 5])
def test_what_is_no_strict_json(text):
    with pytest.raises(strict_json.NotStrict):
        strict_json.loads(text.encode())


def test_a_long_number_is_refused_before_it_is_converted():
    """To convert it would take time that grows with the square of its length."""
    begin = time.process_time()
    with pytest.raises(strict_json.NotStrict, match="more than 64 bits"):
        strict_json.loads(b'{"a":' + b"9" * 10 ** 6 + b"}")
    assert time.process_time() - begin < 1


def test_strict_json_comes_back():
    value = {"a": [1, -2 ** 63, 2 ** 64 - 1, True, None, "é", {}], "b": {"c": []}}
    assert strict_json.loads(strict_json.dumps(value)) == value
    with pytest.raises(ValueError):
        strict_json.dumps({"a": float("nan")})


def test_long_and_strange_names_of_tables(tmp_path, seed):
    random = np.random.RandomState(seed)
    names = ["a/b", "a%2Fb", "x" * 300, "x" * 299 + "y", "é" * 60, "..", "model.ckpt-7"]
    folder = made_checkpoints.save(tmp_path, [made_checkpoints.hash_table(random, name, used=20) for name in names])
    read = manifest.read(folder)
    assert sorted(read.tables) == sorted(names)
    assert len(read.other_files()) == 2 and len(os.listdir(folder)) == len(read.files) + 1

"""Tables through sinks to files, and from sources to any number of ranks: a dict of key to row is the oracle."""
import os
import tracemalloc

import made_checkpoints
import numpy as np
import pytest

from sok1x.checkpoint.errors import DamagedError, MismatchError, NotFoundError
from sok1x.checkpoint.files import folders, writing
from sok1x.checkpoint.files.checkpoint_files import Checkpoint
from sok1x.checkpoint.files.reading import TableSource, Wanted


@pytest.fixture
def random(seed):
    return np.random.RandomState(seed)


def wanted_of(table, **changes):
    parts = {part: (values[0].dtype.name, values[0].shape[1:]) for part, values in table.parts.items()
             if part != "unused"}
    return Wanted(table.dim, 10 ** 6, table.use_hashtable, table.key_dtype, parts)._replace(**changes)


def loaded(folder, table, rank, ranks, **changes):
    """(source, keys, {part: rows}) of what one rank gets."""
    source = TableSource(Checkpoint(folder), table.name, rank, ranks, wanted_of(table, **changes))
    source.check()
    chunks = list(source.chunks())
    keys = np.concatenate([np.empty(0, np.int64)] + [keys for keys, _ in chunks])
    assert len(keys) == source.total and all(len(keys) for keys, _ in chunks)
    return source, keys, {part: [row for _, parts in chunks for row in parts[part]] for part in table.parts
                          if part != "unused"}


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 6])
@pytest.mark.parametrize("chunk", [None, 7])
def test_any_number_of_ranks_gets_every_key_once(tmp_path, random, ranks, chunk):
    for saved in (1, 2, 4, 6):
        table = made_checkpoints.hash_table(random, ranks=saved, rows=1000, used=900, slots=("a", "b/c"))
        folder = made_checkpoints.save(tmp_path, [table], step=saved, chunk=chunk)
        expected = {part: table.by_key(part) for part in table.parts}
        seen = set()
        for rank in range(ranks):
            source, keys, parts = loaded(folder, table, rank, ranks)
            assert (keys % ranks == rank).all() and not seen.intersection(keys.tolist())
            seen.update(keys.tolist())
            for part, rows in parts.items():
                assert all(np.array_equal(row, expected[part][int(key)]) for key, row in zip(keys, rows))
            if saved == ranks:
                assert source.same_ranks and (keys == table.keys[rank]).all()
        assert seen == set(expected["rows"])


def test_rows_come_in_the_order_of_old_ranks_and_rows(tmp_path, random):
    table = made_checkpoints.hash_table(random, ranks=4, used=500)
    folder = made_checkpoints.save(tmp_path, [table])
    for ranks in (1, 2):
        for rank in range(ranks):
            expected = np.concatenate([keys[keys % ranks == rank] for keys in table.keys])
            assert (loaded(folder, table, rank, ranks)[1] == expected).all()


def test_only_shards_that_can_have_a_ranks_keys_are_read(tmp_path, random):
    table = made_checkpoints.hash_table(random, ranks=6)
    checkpoint = Checkpoint(made_checkpoints.save(tmp_path, [table]))
    shards = {(rank, ranks): TableSource(checkpoint, table.name, rank, ranks, wanted_of(table)).shards
              for rank, ranks in ((1, 4), (5, 6), (4, 5), (7, 12), (0, 3))}
    assert shards == {(1, 4): [1, 3, 5], (5, 6): [5], (4, 5): [0, 1, 2, 3, 4, 5], (7, 12): [1], (0, 3): [0, 3]}


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_without_a_hash_table(tmp_path, random, ranks):
    table = made_checkpoints.direct_table(random, ranks=2, rows=600, slots=("a",))
    folder = made_checkpoints.save(tmp_path, [table])
    expected = table.by_key("rows")
    seen = {}
    for rank in range(ranks):
        _, keys, parts = loaded(folder, table, rank, ranks, rows=-(-1200 // ranks))
        seen.update(zip(keys.tolist(), parts["rows"]))
        with pytest.raises(MismatchError, match="has {} rows of table 'item' for rank {} .* has {} rows: give".format(
                1200 // ranks, rank, 1200 // ranks - 1)):
            loaded(folder, table, rank, ranks, rows=1200 // ranks - 1)
    assert seen.keys() == expected.keys() and all(np.array_equal(seen[key], expected[key]) for key in seen)


def test_empty_tables_and_ranks(tmp_path, random):
    table = made_checkpoints.hash_table(random, ranks=3, used=0)
    other = made_checkpoints.hash_table(random, "other", ranks=3, used=200)
    for part, values in other.parts.items():
        values[1] = values[1][:0]
    other.keys[1] = other.keys[1][:0]
    folder = made_checkpoints.save(tmp_path, [table, other])
    for rank in range(2):
        assert len(loaded(folder, table, rank, 2)[1]) == 0
    assert len(loaded(folder, other, 1, 3)[1]) == 0
    assert {int(key) for rank in range(2) for key in loaded(folder, other, rank, 2)[1]} == set(other.by_key("rows"))


def test_rows_not_in_use(tmp_path, random):
    table = made_checkpoints.hash_table(random, ranks=2, rows=700)
    table.parts["unused"] = [random.standard_normal((700 - len(keys), 16)).astype(np.float32) for keys in table.keys]
    folder = made_checkpoints.save(tmp_path, [table])
    for rank in range(2):
        source, keys, _ = loaded(folder, table, rank, 2, rows=700)
        assert np.array_equal(np.concatenate(list(source.unused())), table.parts["unused"][rank])
        assert loaded(folder, table, rank, 2, rows=701)[0].unused() is None
    assert loaded(folder, table, 0, 1)[0].unused() is None


@pytest.mark.parametrize("changes, words", [
    ({"dim": 8}, "D of table 'user/id' is 16 in .*, and 8 in the model"),
    ({"key_dtype": "uint32"}, "key dtype of table 'user/id' is int64 in .*, and uint32"),
    ({"use_hashtable": False}, "use_hashtable of table 'user/id' is True in .*, and False"),
    ({"parts": {"rows": ("float16", (16,))}}, "dtype of rows of table 'user/id' is float32 in .*, and float16"),
    ({"parts": {"slot:user/id/Adam": ("float32", ())}}, r"shape of a row of .* is \[16\] in .*, and \[\]"),
    ({"parts": {"slot:m": ("float32", (16,))}}, "has no 'slot:m' of table 'user/id', .* it has keys, rows, slot:"),
])
def test_what_does_not_fit_says_both_values(tmp_path, random, changes, words):
    table = made_checkpoints.hash_table(random)
    checkpoint = Checkpoint(made_checkpoints.save(tmp_path, [table]))
    with pytest.raises(MismatchError, match=words):
        TableSource(checkpoint, table.name, 0, 2, wanted_of(table, **changes))


@pytest.mark.parametrize("saved, wanted, remedy", [
    (("m/t_1", "v/t_1"), ("m/t", "v/t"), "as often and in the order"),
    (("Adam_1/t/m", "Adam_1/t/v"), ("Adam/t/m", "Adam/t/v"), "as often and in the order"),
    (("t/Adam", "t/Adam_1"), ("t/Adam", "t/Adam_1", "t/Adam_2"), "saved with another optimizer"),
    (("m/t", "m/t_1"), ("m/t_2",), "saved with another optimizer"),
    (("m/t_1",), ("rms/t",), "saved with another optimizer")])
def test_slots_under_other_numbers_are_of_another_compile(tmp_path, random, saved, wanted, remedy):
    table = made_checkpoints.hash_table(random, slots=saved)
    checkpoint = Checkpoint(made_checkpoints.save(tmp_path, [table]))
    with pytest.raises(MismatchError, match="has no 'slot:.*" + remedy):
        TableSource(checkpoint, table.name, 0, 2, wanted_of(table, parts={
            "slot:" + slot: ("float32", (table.dim,)) for slot in wanted}))


def test_fewer_rows_than_needed(tmp_path, random):
    table = made_checkpoints.hash_table(random, used=300)
    folder = made_checkpoints.save(tmp_path, [table])
    loaded(folder, table, 0, 1, rows=300)
    with pytest.raises(MismatchError, match="has 300 rows of table 'user/id' for rank 0 of 1, .* has 299 rows"):
        loaded(folder, table, 0, 1, rows=299)


def test_a_table_that_is_not_there(tmp_path, random):
    table = made_checkpoints.hash_table(random)
    checkpoint = Checkpoint(made_checkpoints.save(tmp_path, [table]))
    with pytest.raises(NotFoundError, match="no table 'x' in .*; it has user/id"):
        TableSource(checkpoint, "x", 0, 2, wanted_of(table))


@pytest.mark.parametrize("suffix", ["keys", "rows", "stamps", "slot-0"])
@pytest.mark.parametrize("ranks", [2, 3])
def test_damage_is_found_by_the_check(tmp_path, random, suffix, ranks):
    """Before a row is given: nothing of a model has changed by then."""
    table = made_checkpoints.hash_table(random, rows=3000, used=3000)
    folder = made_checkpoints.save(tmp_path, [table])
    path = made_checkpoints.path_of(folder, table.name, 1, 2, suffix)
    with open(path, "r+b") as file:
        file.seek(-200, os.SEEK_END)
        byte = file.read(1)
        file.seek(-200, os.SEEK_END)
        file.write(bytes([byte[0] ^ 4]))
    source = TableSource(Checkpoint(folder), table.name, 1, ranks, wanted_of(table))
    with pytest.raises(DamagedError, match=r"user%2Fid\.1-of-2\.{} \(table 'user/id'\) is damaged".format(suffix)):
        source.check()
    # And again by reading, should it come about in between.
    with pytest.raises(DamagedError, match=r"table 'user/id'"):
        list(source.chunks())


@pytest.mark.parametrize("ranks", [1, 2])
def test_memory_is_a_buffer_whatever_the_shard(tmp_path, random, ranks):
    table = made_checkpoints.hash_table(random, ranks=1, used=400000, dim=64, rows=500000, low=-10 ** 8)
    folder = made_checkpoints.save(tmp_path, [table], block_bytes=4 << 20)
    assert os.path.getsize(made_checkpoints.path_of(folder, table.name, 0, 1, "rows")) > 90 << 20
    source = TableSource(Checkpoint(folder), table.name, 0, ranks, wanted_of(table))
    tracemalloc.start()
    try:
        source.check()
        for keys, parts in source.chunks():
            del keys, parts
        assert 1 << 20 < tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()


def test_parts_written_twice_or_unknown_are_refused(tmp_path, random):
    table = made_checkpoints.hash_table(random, ranks=1)
    sink = writing.TableSink(str(tmp_path), folders.new_token(), 1)
    sink.begin(table.facts(0))
    sink.write("keys", table.keys[0])
    sink.write("rows", table.parts["rows"][0])
    for part in ("keys", "other"):
        with pytest.raises(ValueError, match="got '{}'".format(part)):
            sink.write(part, table.keys[0])
    sink.abort()
    with pytest.raises(ValueError, match="has no part 'other'"):
        writing.TableSink(str(tmp_path), "00ff", 1).begin(dict(table.facts(0), parts={"other": {
            "dtype": "int64", "row_shape": [], "count": 1}}))


def test_a_part_that_lacks_rows_is_refused(tmp_path, random):
    table = made_checkpoints.hash_table(random, ranks=1)
    sink = writing.TableSink(str(tmp_path), folders.new_token(), 1)
    sink.begin(table.facts(0))
    sink.write("keys", table.keys[0][:-1])
    with pytest.raises(ValueError, match="lacks 1 of 300 rows"):
        sink.end()
    sink.abort()
    assert not os.listdir(str(tmp_path))


@pytest.mark.parametrize("parts", [0, 1, 2, 4])
def test_abort_leaves_nothing(tmp_path, random, parts):
    table = made_checkpoints.hash_table(random, ranks=1)
    sink = writing.TableSink(str(tmp_path), folders.new_token(), 1)
    sink.begin(table.facts(0))
    for part, values in list(dict({"keys": table.keys}, **table.parts).items())[:parts]:
        sink.write(part, values[0][:100] if parts < 4 else values[0])
    if parts == 4:
        sink.end()
    sink.abort()
    sink.abort()
    assert not os.listdir(str(tmp_path))

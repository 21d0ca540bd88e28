"""Finds and copies for many tables at once, against the same for each table alone and NumPy."""
import numpy as np
import pytest
from group_arena import Arena, Blocked, Flat, int64, put_all, sizes
from group_tables import DIMS, Tables
from kernel_checks import dirty
from kernel_devices import SMALL, call, host_only, on_gpu, same_bits, size

from sok1x.cuda_kernels import backend, group_find, group_gather, groups, hash_index
from sok1x.cuda_kernels.arrays import of_numpy

pytestmark = pytest.mark.usefixtures("device")
COUNTS = [0, 1, 2, 7, 33, 100]


@pytest.mark.parametrize("dtype, name", [(group_find.FIND, "group_find_member_bytes"),
                                         (group_gather.GATHER, "group_gather_member_bytes")])
@host_only
def test_records_are_those_of_the_kernels(dtype, name):
    assert getattr(backend.kernels, name)() == dtype.itemsize


@pytest.mark.parametrize("out_half", [0, 1])
@host_only
def test_positions_that_have_rows_are_left_alone_when_they_are_looked_up_again(seed, out_half):
    random = np.random.RandomState(seed)
    keys = np.arange(1000, 1700)
    capacity, dim, asked = 1024, 5, random.randint(900, 1800, 3001)
    index, given = np.tile(np.array([0, -1], np.int64), (capacity, 1)), np.full(len(keys), -1, np.int32)
    call(hash_index.insert, index, keys, given, 0)
    table = random.normal(size=(len(keys), dim)).astype(np.float32)
    expected = np.where((asked >= 1000) & (asked < 1700), asked - 1000, -1)
    there = np.where(random.random_sample(len(asked)) < 0.8, 10 ** 6, -1).astype(np.int32)
    members = groups.members(group_find.FIND, 1)

    def run():
        rows, missing = there.copy(), np.zeros(1, np.int64)
        out = np.full((len(asked), dim), 7, np.float16 if out_half else np.float32)
        for name, value in (("index", index), ("rows", rows), ("table", table)):
            members[name] = value.ctypes.data
        groups.lie_at(members["keys"], asked.ctypes.data)
        groups.lie_at(members["out"], out.ctypes.data)
        members["n"], members["capacity"], members["ranks"] = len(asked), capacity, 1
        members["dim"], members["out_half"], members["again"] = dim, out_half, 1
        group_find.look_up(members, of_numpy(missing))
        return rows, out, missing

    rows, out, missing = same_bits(run)
    lacked = there < 0
    np.testing.assert_array_equal(rows, np.where(lacked, expected, there))
    new = lacked & (expected >= 0)
    np.testing.assert_array_equal(out[new], table[expected[new]].astype(out.dtype))
    assert (out[~new] == 7).all() and missing == (lacked & (expected < 0)).sum()


@pytest.mark.parametrize("ranks", [0, 1, 2, 5])
@pytest.mark.parametrize("count", COUNTS)
def test_find(seed, count, ranks):
    random, arena = np.random.RandomState(seed), Arena()
    tables = Tables(random, arena, count)
    keys = (Blocked(arena, random, tables.keys, ranks, 8) if ranks and count else
            Flat(arena, random, tables.keys))
    rows_at = put_all(arena, [dirty(n, np.int32) for n in tables.n])
    missing_at = arena.out(count, np.int64)
    missing, *rows = arena.same_bits(
        lambda base: group_find.find(tables.members(base, keys, rows_at), int64(base + missing_at, count)), missing_at,
        *rows_at)
    for found, expected in zip(rows, tables.expected):
        np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(missing, [(expected < 0).sum() for expected in tables.expected])


@pytest.mark.parametrize("ranks, align", [(0, 16), (0, 4), (1, 1), (3, 1), (4, 16)])
@pytest.mark.parametrize("count", COUNTS)
def test_look_up(seed, count, ranks, align):
    """As lookup.look_up; keys and values in blocks of their own, values of missing keys untouched."""
    random, arena = np.random.RandomState(seed), Arena()
    tables = Tables(random, arena, count)
    half = random.uniform(size=count) < 0.4
    outs = [dirty((n, dim), np.float16 if h else np.float32) for n, dim, h in zip(tables.n, tables.dim, half)]
    keys = (Blocked(arena, random, tables.keys, ranks, 8) if ranks and count else Flat(arena, random, tables.keys))
    # float32 rows must lie at multiples of 4: float16 blocks beside them are filled up
    out = (Blocked(arena, random, outs, ranks, max(4, align)) if ranks and count else Flat(arena, random, outs, align))
    rows_at = put_all(arena, [dirty(n, np.int32) for n in tables.n])
    table_at = put_all(arena, tables.tables, align if align > 1 else 16)
    missing_at = arena.out(count, np.int64)

    def run(base):
        members = tables.members(base, keys, rows_at)
        members["table"], members["dim"], members["out_half"] = base + table_at, tables.dim, half
        out.lie(members["out"], base)
        group_find.look_up(members, int64(base + missing_at, count))

    outs_at = out.at if isinstance(out, Flat) else [out.at]
    found = arena.same_bits(run, missing_at, *rows_at, *outs_at)
    values = found[1 + count:] if isinstance(out, Flat) else out.read(found[-1])
    for t in range(count):
        rows = tables.expected[t]
        expected = outs[t].copy()
        expected[rows >= 0] = tables.tables[t][rows[rows >= 0]]
        np.testing.assert_array_equal(found[1 + t], rows)
        assert values[t].tobytes() == expected.tobytes()
        assert found[0][t] == (rows < 0).sum()


@pytest.mark.parametrize("ranks, align", [(0, 16), (0, 4), (0, 8), (1, 1), (3, 1), (4, 16)])
@pytest.mark.parametrize("count", COUNTS)
def test_gather(seed, count, ranks, align):
    """Direct, through distinct rows and as a plain copy; float16 and float32; from blocks and into blocks."""
    random, arena = np.random.RandomState(seed), Arena()
    n = sizes(random, count, size(2000) // 2)
    dim = random.choice(DIMS if not SMALL else [1, 3, 4, 130], count)
    half_in, half_out = random.uniform(size=(2, count)) < 0.4
    way = random.choice(["rows", "inverse", "copy"], count)
    tables, rows, inverse, outs, expected = [], [], [], [], []
    for t in range(count):
        table = random.standard_normal((n[t] if way[t] == "copy" else random.randint(1, 300), dim[t]))
        tables.append(table.astype(np.float16 if half_in[t] else np.float32))
        distinct = random.randint(-1, len(table), n[t] if way[t] == "rows" else 77) if len(table) else np.zeros(0)
        rows.append(distinct.astype(np.int32))
        inverse.append(random.randint(0, 77, n[t]).astype(np.int32))
        from_rows = {"rows": rows[t], "copy": np.arange(n[t])}.get(way[t])
        if from_rows is None:
            from_rows = rows[t][inverse[t]]
        outs.append(dirty((n[t], dim[t]), np.float16 if half_out[t] else np.float32))
        expected.append(outs[t].copy())
        expected[t][from_rows >= 0] = tables[t][from_rows[from_rows >= 0]]
    make = (lambda arrays: Blocked(arena, random, arrays, ranks, max(4, align))) if ranks and count else (
        lambda arrays: Flat(arena, random, arrays, align))
    source, out = make(tables), make(outs)
    rows_at, inverse_at = put_all(arena, rows), put_all(arena, inverse)

    def run(base):
        members = groups.members(group_gather.GATHER, count)
        source.lie(members["source"], base)
        out.lie(members["out"], base)
        members["source_half"], members["out_half"], members["dim"], members["n"] = half_in, half_out, dim, n
        members["rows"] = np.where(way != "copy", base + rows_at, 0)
        members["inverse"] = np.where(way == "inverse", base + inverse_at, 0)
        group_gather.gather(members)

    outs_at = out.at if isinstance(out, Flat) else [out.at]
    found = arena.same_bits(run, *outs_at) if outs_at else []
    values = found if isinstance(out, Flat) else out.read(found[0])
    for got, wanted in zip(values, expected):
        assert got.tobytes() == wanted.tobytes()


def test_many_members_with_one_key_each(seed):
    """More members than a block has warps; and launches do not depend on how many there are."""
    random, arena = np.random.RandomState(seed), Arena()
    count = 1000
    keys = random.randint(0, 10 ** 9, count)
    keys_at, rows_at, missing_at = arena.put(keys), arena.out(count, np.int32), arena.out(count, np.int64)

    def run(base):
        members = groups.members(group_find.FIND, count)
        groups.lie_at(members["keys"], base + keys_at + 8 * np.arange(count))
        members["n"], members["ranks"], members["limit"] = 1, 3, 5 * 10 ** 8
        members["rows"] = base + rows_at + 4 * np.arange(count)
        group_find.find(members, int64(base + missing_at, count))

    rows, missing = arena.same_bits(run, rows_at, missing_at)
    np.testing.assert_array_equal(rows, np.where(keys < 5 * 10 ** 8, keys // 3, -1))
    np.testing.assert_array_equal(missing, keys >= 5 * 10 ** 8)
    assert on_gpu() or missing.any()

"""Lookups of bags for many tables at once, in one pass over their keys, against NumPy."""
import numpy as np
import pytest
from group_arena import Arena, Flat, int64, put_all
from group_tables import Tables
from kernel_checks import combine_oracle, dirty
from kernel_devices import host_only

from sok1x.cuda_kernels import bags as bags_of
from sok1x.cuda_kernels import group_bags, group_combine, group_find, groups

pytestmark = pytest.mark.usefixtures("device")


def laid_out(random, arena, count):
    """(Tables, their keys, and where in the arena rows found and the tables are)."""
    tables = Tables(random, arena, count)
    for table in tables.tables:
        table[::5] = -0.0  # which a sum has as 0
    keys = Flat(arena, random, tables.keys)
    return tables, keys, put_all(arena, [dirty(n, np.int32) for n in tables.n]), put_all(arena, tables.tables)


@pytest.mark.parametrize("count", [0, 1, 7, 33])
def test_look_up_bags(seed, count):
    """Bags of one key each, of a few, of none, or one of all; keys without a row add nothing."""
    random, arena = np.random.RandomState(seed), Arena()
    tables, keys, rows_at, tables_at = laid_out(random, arena, count)
    lengths = []
    for n in tables.n.tolist():
        cuts = random.randint(0, n + 1, random.choice([0, 1, n, 3 * n + 1]))
        lengths.append(np.ones(n, np.int64) if random.rand() < 0.5 else np.diff(np.sort(np.append(cuts, [0, n]))))
    offsets = [np.append(0, np.cumsum(one)).astype(np.int64) for one in lengths]
    offsets_at = put_all(arena, offsets)
    half, mean = random.randint(0, 2, count), random.randint(0, 2, count)
    outs = [dirty((len(one), dim), np.float16 if narrow else np.float32)
            for one, dim, narrow in zip(lengths, tables.dim, half)]
    outs_at, counts_at = put_all(arena, outs), arena.out((4, count), np.int64)

    def run(base):
        members, bags = tables.members(base, keys, rows_at), groups.members(group_combine.COMBINE, count)
        members["table"], members["dim"] = base + tables_at, tables.dim
        groups.lie_at(bags["source"], members["table"])
        groups.lie_at(bags["out"], base + outs_at)
        bags["inverse"], bags["offsets"], bags["out_half"] = members["rows"], base + offsets_at, half
        bags["dim"], bags["mean"] = tables.dim, mean
        bags["n_keys"], bags["n_bags"] = tables.n, [len(one) for one in lengths]
        group_find.look_up_bags(members, bags, int64(base + counts_at, 4, count))

    counts, *found = arena.same_bits(run, counts_at, *rows_at, *outs_at)
    assert counts[:3].tobytes() == dirty((4, count), np.int64)[:3].tobytes()
    for t, expected in enumerate(tables.expected):
        np.testing.assert_array_equal(found[t], expected)
        assert counts[3, t] == (expected < 0).sum()
        sums = combine_oracle(tables.tables[t], None, expected, offsets[t], mean[t]).astype(outs[t].dtype)
        assert found[count + t].tobytes() == sums.tobytes()


@pytest.mark.parametrize("count", [0, 1, 7, 33])
def test_bags_that_begin_in_the_same_pass(seed, count):
    """By indices or by splits; longest bags as long as `most`, longer, and not looked for; batches that are not so."""
    random, arena = np.random.RandomState(seed), Arena()
    tables, keys, rows_at, tables_at = laid_out(random, arena, count)
    n_bags = [int(random.choice([1, 2, n + 1, 3 * n + 1])) for n in tables.n]
    bags = [np.sort(random.randint(0, many, n)) for n, many in zip(tables.n, n_bags)]
    offsets = [np.searchsorted(of, np.arange(many + 1)) for of, many in zip(bags, n_bags)]
    lengths = [int(np.diff(one).max()) for one in offsets]
    by_splits = random.rand(count) < 0.4
    most = [int(random.choice([0, 1, max(0, n - 1), n, 2 ** 31 - 1])) for n in lengths]
    wrong = (random.rand(count) < 0.3) & (tables.n > 1)
    given = []
    for t, (of, begins) in enumerate(zip(bags, offsets)):
        one = (begins if by_splits[t] else np.stack([of, np.full(len(of), -77)], axis=1)).astype(np.int64)
        if wrong[t] and by_splits[t]:
            one[-1] += random.choice([-1, 1])
        elif wrong[t]:
            one[random.choice([0, len(of) // 2, len(of) - 1]), 0] = random.choice([-1, n_bags[t], 2 ** 40])
        given.append(one)
    given_at = put_all(arena, given, 8)
    offsets_at = put_all(arena, [dirty(len(one), np.int64) for one in offsets])
    outs_at = put_all(arena, [dirty((many, dim), np.float32) for many, dim in zip(n_bags, tables.dim)])
    counts_at = arena.out((4, count), np.int64)

    def run(base):
        members, sums = tables.members(base, keys, rows_at), groups.members(group_combine.COMBINE, count)
        starts = groups.members(group_bags.BAGS, count)
        starts["splits"] = np.where(by_splits, base + given_at.reshape(count), 0)
        starts["bags"] = np.where(by_splits, 0, base + given_at.reshape(count))
        starts["stride"], starts["n"], starts["n_bags"], starts["most"] = 2, tables.n, n_bags, most
        starts["offsets"] = base + offsets_at
        members["table"], members["dim"] = base + tables_at, tables.dim
        groups.lie_at(sums["source"], members["table"])
        groups.lie_at(sums["out"], base + outs_at)
        sums["inverse"], sums["offsets"], sums["dim"] = members["rows"], starts["offsets"], tables.dim
        # On the host sums are made of batches that are as they must be alone.
        left_out = wrong | np.array([n > of for n, of in zip(lengths, most)], bool)
        sums["n_keys"] = np.where(left_out, 0, tables.n)
        sums["n_bags"] = np.where(left_out, 0, n_bags)
        members["n"] = np.where(left_out, 0, tables.n)
        group_find.look_up_bags(members, sums, int64(base + counts_at, 4, count), starts)

    counts, *found = arena.run(run, counts_at, *offsets_at, *rows_at, *outs_at)
    outside, unsorted, longest, missing = counts
    np.testing.assert_array_equal((outside != 0) | (unsorted != 0), wrong)
    for t in np.flatnonzero(~wrong):
        np.testing.assert_array_equal(found[t], offsets[t])
        assert (longest[t] >> bags_of.BITS > most[t]) == (lengths[t] > most[t])
        if lengths[t] > most[t]:
            continue
        np.testing.assert_array_equal(found[count + t], tables.expected[t])
        assert missing[t] == (tables.expected[t] < 0).sum()
        sums = combine_oracle(tables.tables[t], None, tables.expected[t], offsets[t], 0).astype(np.float32)
        assert found[2 * count + t].tobytes() == sums.tobytes()


@pytest.mark.parametrize("count", [0, 1, 7, 33])
@host_only
def test_look_up_one_each(seed, count):
    """Members with one key in each bag, by indices or by splits; with other bags, wherever these are; with no keys."""
    random, arena = np.random.RandomState(seed), Arena()
    tables, keys, rows_at, tables_at = laid_out(random, arena, count)
    outs_at = put_all(arena, [dirty((n, dim), np.float32) for n, dim in zip(tables.n, tables.dim)])
    stride, splits = random.randint(1, 4, count), random.uniform(size=count) < 0.4
    other, given = random.uniform(size=count) < 0.5, []
    for t, n in enumerate(tables.n.tolist()):
        bags = np.arange(n + bool(splits[t]))
        if other[t] and n:
            bags[random.choice([0, n - 1, random.randint(n)])] += random.choice([-1, 1, 2 ** 40])
        other[t] = other[t] and n > 0
        wide = dirty((len(bags), 1 if splits[t] else stride[t]), np.int64)
        wide[:, 0] = bags
        given.append(wide)
    given_at, counts_at = put_all(arena, given), arena.out((2, count), np.int64)

    def run(base):
        members, bags = tables.members(base, keys, rows_at), groups.members(group_bags.BAGS, count)
        members["table"], members["dim"] = base + tables_at, tables.dim
        groups.lie_at(members["out"], base + outs_at)
        bags["splits"] = np.where(splits, base + given_at, 0)
        bags["bags"] = np.where(splits, 0, base + given_at)
        bags["stride"], bags["n"], bags["n_bags"] = stride, tables.n, tables.n
        group_find.look_up_one_each(members, bags, int64(base + counts_at, 2, count))

    counts, *found = arena.run(run, counts_at, *rows_at, *outs_at)
    np.testing.assert_array_equal(counts[0], other)
    for t in np.flatnonzero(~other):
        rows = tables.expected[t]
        np.testing.assert_array_equal(found[t], rows)
        assert counts[1, t] == (rows < 0).sum()
        sums = combine_oracle(tables.tables[t], None, rows, np.arange(len(rows) + 1), False)
        assert found[count + t].tobytes() == sums.tobytes()

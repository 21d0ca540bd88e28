"""Rows of many tables narrowed and stamped at once, against NumPy."""
import numpy as np
import pytest
from group_arena import Arena, put_all, sizes
from kernel_checks import dirty
from kernel_devices import host_only, size

from sok1x.cuda_kernels import backend, group_stamps, groups

pytestmark = pytest.mark.usefixtures("device")


@host_only
def test_records_are_those_of_the_kernels():
    assert backend.kernels.group_stamp_member_bytes() == group_stamps.STAMP.itemsize


@pytest.mark.parametrize("count", [0, 1, 2, 7, 33, 100])
def test_random_members(seed, count):
    """Narrowed, stamped, or both; some share a table. Without rows the clock moves all the same."""
    random, arena = np.random.RandomState(seed), Arena()
    n = sizes(random, count, size(3000))
    narrowed, stamped = random.uniform(size=(2, count)) < 0.7
    stamped |= ~narrowed
    tables = np.arange(count) if count < 7 else random.randint(0, count // 2, count)
    ahead = np.zeros(count, np.int64)  # of one member of each table
    ahead[np.unique(tables, return_index=True)[1]] = random.randint(0, 2, len(np.unique(tables)))
    table_rows = random.randint(1, 500, max(1, count))
    at_least = random.randint(0, 9, max(1, count))
    clocks = random.choice([0, 4, 8, 2 ** 40], max(1, count))
    stamps = [random.randint(0, 4, rows).astype(np.int64) for rows in table_rows]
    rows = [random.randint(-3, table_rows[table] + 3, m) for table, m in zip(tables, n)]
    values_at = put_all(arena, [one.astype(np.int64) for one in rows])
    rows_at = put_all(arena, [dirty(len(one), np.int32) if narrow else one.astype(np.int32)
                              for one, narrow in zip(rows, narrowed)])
    stamps_at, clocks_at = put_all(arena, stamps), arena.put(clocks)

    def run(base):
        members = groups.members(group_stamps.STAMP, count)
        members["values"], members["rows"] = np.where(narrowed, base + values_at, 0), base + rows_at
        members["n"], members["stamps"] = n, np.where(stamped, base + stamps_at[tables], 0)
        members["table_rows"], members["clock"] = table_rows[tables], base + clocks_at + 8 * tables
        members["ahead"], members["at_least"] = ahead, at_least[tables]
        group_stamps.stamp(members)

    moved, *found = arena.same_bits(run, clocks_at, *rows_at, *stamps_at)
    expected = [one.copy() for one in stamps]
    for table in range(len(clocks)):
        of_table = [t for t in range(count) if tables[t] == table and stamped[t]]
        step = max(clocks[table] + sum(ahead[t] for t in of_table), at_least[table]) if of_table else clocks[table]
        assert moved[table] == step
        for t in of_table:
            expected[table][rows[t][(rows[t] >= 0) & (rows[t] < table_rows[table])]] = step
    for got, wanted in zip(found, [one.astype(np.int32) for one in rows] + expected):
        np.testing.assert_array_equal(got, wanted)

"""Stamps of rows and the keys of those that changed, against NumPy."""
import numpy as np
import pytest
from kernel_checks import EXTREMES, dirty
from kernel_devices import call, same_bits, size

from sok1x.cuda_kernels import hash_index, stamps

pytestmark = pytest.mark.usefixtures("device")
LIMIT = 2 ** 63 - 1


@pytest.mark.parametrize("clock, ahead, at_least, expected", [
    (0, 1, 0, 1), (5, 1, 0, 6), (5, 0, 9, 9), (5, 0, 3, 5), (5, 1, 6, 6), (LIMIT - 1, 1, 0, LIMIT), (0, 0, 0, 0)])
def test_the_clock(clock, ahead, at_least, expected):
    def run():
        value = np.array([clock, 77])
        call(stamps.advance, value[:1], ahead, at_least)
        return value

    assert same_bits(run).tolist() == [expected, 77]


@pytest.mark.parametrize("n", [0, 1, 2, 255, 256, 257, 30011])
@pytest.mark.parametrize("clock, at_least", [(4, 0), (4, 9), (4, 4), (2 ** 40, 7)])
def test_rows_are_stamped(seed, n, clock, at_least):
    """Repeated ones too; those outside the table are left out. Without rows the clock moves all the same."""
    random = np.random.RandomState(seed)
    table_rows = 20000
    before = random.randint(0, 10, table_rows).astype(np.int64)
    rows = random.randint(-5, table_rows + 5, n).astype(np.int32)
    if n > 2:
        rows[:3] = -1, table_rows, 2 ** 31 - 1
    step = max(clock, at_least)
    expected = before.copy()
    expected[rows[(rows >= 0) & (rows < table_rows)]] = step

    def run():
        after, moved = before.copy(), np.array([clock])
        call(stamps.stamp_rows, rows, at_least, moved, after)
        return after, moved

    after, moved = same_bits(run)
    np.testing.assert_array_equal(after, expected)
    assert moved.tolist() == [step]


@pytest.mark.parametrize("first, n", [(0, 0), (0, 1), (0, 5000), (4999, 1), (17, 1000)])
@pytest.mark.parametrize("ahead, at_least, step", [(0, 0, 6), (1, 0, 7), (1, 7, 7), (1, 20, 20), (0, 3, 6)])
def test_a_range_is_stamped_and_the_clock_stays(first, n, ahead, at_least, step):
    def run():
        after, clock = dirty(5000, np.int64), np.array([6])
        call(stamps.stamp_range, ahead, at_least, clock, after[first:first + n])
        return after, clock

    after, clock = same_bits(run)
    expected = dirty(5000, np.int64)
    expected[first:first + n] = step
    np.testing.assert_array_equal(after, expected)
    assert clock.tolist() == [6]


@pytest.mark.parametrize("since", [-1, 0, 3, 2 ** 31, 2 ** 40, -2 ** 63, LIMIT])
@pytest.mark.parametrize("n", [0, 1, 20001])
def test_changed_rows(seed, n, since):
    given = np.random.RandomState(seed).choice([0, 1, 3, 4, 2 ** 31 + 1, 2 ** 40 + 1], n).astype(np.int64)

    def run():
        rows = dirty(n, np.int32)
        call(stamps.changed_rows, given, since, rows)
        return rows

    np.testing.assert_array_equal(same_bits(run), np.where(given > since, np.arange(n), -1))


def keys_of(random, key_type, n):
    info = np.iinfo(key_type)
    keys = np.concatenate([[info.min, info.max, 0, info.max - 1], random.randint(info.min, info.max, n, key_type)])
    return random.permutation(np.unique(np.concatenate([keys, EXTREMES]) if key_type == "int64" else keys))


@pytest.mark.parametrize("key_type", ["int64", "int32", "uint32"])
@pytest.mark.parametrize("part", [0.0, 0.3, 1.0])
def test_keys_of_numbered_rows(seed, key_type, part):
    random = np.random.RandomState(seed)
    keys = keys_of(random, key_type, size(30000))
    rows = len(keys)
    capacity = hash_index.capacity(rows)
    index = np.full((capacity, 2), -1, np.int64)
    call(hash_index.insert, index, keys.astype(np.int64), np.full(rows, -1, np.int32), 0)
    n = rows - 7  # the last rows are not asked for
    chosen = np.flatnonzero(random.uniform(size=n) < part)
    number = np.full(n, -1, np.int32)
    number[chosen] = np.arange(len(chosen))

    def run():
        out = dirty(len(chosen) + 1, key_type)
        call(stamps.numbered_keys, index, number, out)
        return out

    out = same_bits(run)
    np.testing.assert_array_equal(out[:-1], keys[chosen])
    assert out[-1:].tobytes() == dirty(1, key_type).tobytes()


@pytest.mark.parametrize("key_type", ["int64", "int32", "uint32"])
@pytest.mark.parametrize("ranks, rank", [(1, 0), (3, 2)])
def test_keys_without_an_index(seed, key_type, ranks, rank):
    most = min(2 ** 31 - 1, (np.iinfo(key_type).max - rank) // ranks)
    random = np.random.RandomState(seed)
    for rows in ([], [0], [most], np.append(random.randint(0, most, 3001), most)):
        rows = np.array(rows, np.int32)

        def run(rows=rows):
            out = dirty(len(rows), key_type)
            call(stamps.direct_keys, rows, ranks, rank, out)
            return out

        expected = rows.astype(np.int64) * ranks + rank
        np.testing.assert_array_equal(same_bits(run).astype(np.int64), expected)

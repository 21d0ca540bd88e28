"""Ticks, frequencies and free rows against NumPy."""
import numpy as np
import pytest
from kernel_checks import dirty
from kernel_devices import call, same_bits, size

from sok1x.cuda_kernels import row_use

pytestmark = pytest.mark.usefixtures("device")


@pytest.mark.parametrize("counting", [True, False])
def test_touched_rows_have_the_tick_and_count_each_lookup_once(seed, counting):
    random = np.random.RandomState(seed)
    for n in (0, 1, 100, size(30000)):
        rows = random.randint(-1, 500, n).astype(np.int32)
        tick = np.array(7, np.int64)
        used, frequency = random.randint(-1, 8, 500), random.randint(0, 9, 500)
        expected_used, expected_frequency = used.copy(), frequency.copy()
        asked = np.unique(rows[rows >= 0])
        expected_frequency[asked[used[asked] != 7]] += 1
        expected_used[asked] = 7

        def touched():
            u, f = used.copy(), frequency.copy()
            call(row_use.touch, rows, tick, u, f if counting else None)
            return u, f

        u, f = same_bits(touched)
        np.testing.assert_array_equal(u, expected_used)
        np.testing.assert_array_equal(f, expected_frequency if counting else frequency)


@pytest.mark.parametrize("known, step, after", [
    (2 ** 62, 20, 21), (2 ** 62, 0, 1), (3, 20, 3), (0, 20, 0),
    (2 ** 62 + 19, 20, 21), (2 ** 62 + 20, 20, 21), (2 ** 62 + 30, 20, 31), (2 ** 62 + 30, 0, 31)])
def test_lookups_are_counted_and_the_first_notes_the_step(known, step, after):
    counters, clock = np.array([5, known], np.int64), np.array(step, np.int64)
    call(row_use.begin_lookup, counters[:1], counters[1:], 2 ** 62, clock)
    assert counters.tolist() == [6, after] and clock == step


@pytest.mark.parametrize("counting", [True, False])
def test_rows_that_are_given_out_and_freed(seed, counting):
    random = np.random.RandomState(seed)
    rows = random.permutation(900).astype(np.int32)[:400]
    used, frequency, stamps = (random.randint(0, 99, 900) for _ in range(3))
    tick, clock = np.array(50, np.int64), np.array(20, np.int64)
    before = used.copy(), frequency.copy(), stamps.copy()
    call(row_use.begin, rows, tick, used, frequency if counting else None)
    before[0][rows] = 50
    if counting:
        before[1][rows] = 1
    call(row_use.stamp, rows, 2, 5, clock, stamps)
    before[2][rows] = 22
    call(row_use.stamp, rows[:9].copy(), 2, 500, clock, stamps)
    before[2][rows[:9]] = 500
    call(row_use.free, rows[3:7].copy(), used)
    before[0][rows[3:7]] = -1
    numbers = np.arange(900, dtype=np.int32)
    call(row_use.leave_free_out, used, numbers)
    np.testing.assert_array_equal(numbers, np.where(used < 0, -1, np.arange(900)))
    for got, expected in zip((used, frequency, stamps), before):
        np.testing.assert_array_equal(got, expected)
    assert clock == 20


@pytest.mark.parametrize("n", [0, 1, 2047, 2049, 30000])
@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_free_rows_are_listed_the_lowest_last(seed, n, share):
    random = np.random.RandomState(seed)
    n = size(n)
    used = np.where(random.random_sample(n) < share, -1, random.randint(0, 99, n))
    expected = np.flatnonzero(used < 0)[::-1]

    def listed():
        free = dirty(len(expected), np.int64)
        assert call(row_use.list_free, used, free) == len(expected)
        return free

    np.testing.assert_array_equal(same_bits(listed), expected)
    if len(expected) > 1:  # a count that is too low is told, and nothing is written beside the list
        free = dirty(len(expected) - 1, np.int64)
        assert call(row_use.list_free, used, free) == len(expected)


@pytest.mark.parametrize("there", [0, 5, 20000])
@pytest.mark.parametrize("missing", [0.0, 0.5, 1.0])
def test_new_keys_get_free_rows_first(seed, there, missing):
    random = np.random.RandomState(seed)
    n = size(12000)
    keys = random.permutation(n).astype(np.int64) - 500
    found = np.where(random.random_sample(n) < missing, -1, random.randint(0, 10 ** 6, n)).astype(np.int32)
    found[::7] = -2  # a key that is refused
    free = np.sort(random.permutation(10 ** 6)[:there])[::-1].astype(np.int64)
    new = np.flatnonzero(found == -1)
    numbers = np.concatenate([free[::-1], 10 ** 6 + np.arange(n)])[:len(new)]

    def given():
        rows, new_keys, new_rows = found.copy(), dirty(len(new), np.int64), dirty(len(new), np.int32)
        assert call(row_use.give, keys, rows, free, 10 ** 6, new_keys, new_rows) == len(new)
        return rows, new_keys, new_rows

    rows, new_keys, new_rows = same_bits(given)
    np.testing.assert_array_equal(rows[new], numbers)
    np.testing.assert_array_equal(rows[found != -1], found[found != -1])
    np.testing.assert_array_equal(new_keys, keys[new])
    np.testing.assert_array_equal(new_rows, numbers)


@pytest.mark.parametrize("dtype, value", [("float32", 0.1), ("float32", 0.0), ("float64", -0.1), ("int64", -7)])
@pytest.mark.parametrize("columns", [1, 2, 7, 128])
def test_rows_are_reset_to_one_number(seed, dtype, value, columns):
    random = np.random.RandomState(seed)
    before = random.randint(0, 99, (200, columns)).astype(dtype)
    rows = random.permutation(200)[:80].astype(np.int32)
    words = np.frombuffer(np.array(value, dtype).tobytes(), np.int32)

    def reset():
        out = before.copy()
        call(row_use.reset, rows, words[0], words[-1], out)
        return out

    expected = before.copy()
    expected[rows] = value
    np.testing.assert_array_equal(same_bits(reset), expected)


@pytest.mark.parametrize("places", [1, 10, 1000])
def test_the_last_keys_that_left_are_remembered(seed, places):
    random = np.random.RandomState(seed)
    ring, notes, clock = np.zeros((places, 2), np.int64), [], np.array(4, np.int64)
    for n in (0, 1, 3, 25, 2500, 7):
        keys = random.randint(-10 ** 9, 10 ** 9, n)
        at_least = int(random.randint(0, 9))
        call(row_use.remember, keys, len(notes), 1, at_least, clock, ring)
        notes += [(key, max(5, at_least)) for key in keys.tolist()]
        for number in range(max(0, len(notes) - places), len(notes)):
            assert tuple(ring[number % places]) == notes[number]

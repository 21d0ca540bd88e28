"""fill, row_numbers and bags against NumPy."""
import numpy as np
import pytest
from kernel_checks import dirty
from kernel_devices import call, same_bits, size

from sok1x.cuda_kernels import bags, fill, host_memory, row_numbers

pytestmark = pytest.mark.usefixtures("device")
SIZES = [0, 1, 2, 1000, 2047, 2048, 2049, size(100003)]


@pytest.mark.parametrize("dtype, value", [(np.int64, -1 << 40 | 7), (np.int32, -5)])
@pytest.mark.parametrize("n", SIZES)
def test_fill(n, dtype, value):
    for first in range(2):
        def run():
            out = np.zeros(first + n + 1, dtype)
            call(fill.fill_int64 if dtype == np.int64 else fill.fill_int32, out[first:first + n], value)
            return out

        out = same_bits(run)
        assert (out[first:first + n] == value).all() and not out[:first].any() and out[-1] == 0


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("ranks", [1, 3, 64])
def test_direct_rows(n, ranks, seed):
    keys = np.random.RandomState(seed).randint(0, 2 ** 31 * ranks - 1, n, dtype=np.int64)

    def run():
        rows = dirty(n, np.int32)
        call(row_numbers.direct, keys, ranks, rows)
        return rows

    np.testing.assert_array_equal(same_bits(run), keys // ranks)


@pytest.mark.parametrize("n", SIZES)
def test_look_up(n, seed):
    random = np.random.RandomState(seed)
    index = random.randint(0, 50, n).astype(np.int32)
    for dtype, function in (("int32", row_numbers.look_up), ("int64", row_numbers.look_up_int64)):
        values = random.randint(-2 ** 31, 2 ** 31 - 1, max(n, 50)).astype(dtype)

        def run(index):
            out = dirty(n, dtype)
            call(function, values, index, out)
            return out

        np.testing.assert_array_equal(same_bits(lambda: run(index)), values[index])
        np.testing.assert_array_equal(same_bits(lambda: run(None)), values[:n])


@pytest.mark.parametrize("n", SIZES)
def test_narrow(n, seed):
    rows = np.random.RandomState(seed).randint(-1, 2 ** 31 - 1, n, dtype=np.int64)

    def run():
        out = dirty(n, np.int32)
        call(row_numbers.narrow, rows, out)
        return out

    np.testing.assert_array_equal(same_bits(run), rows)


@pytest.mark.parametrize("n", SIZES)
def test_collect_new(n, seed):
    random = np.random.RandomState(seed)
    rows = random.permutation(n).astype(np.int32)
    keys = random.randint(-2 ** 63, 2 ** 63 - 1, n, dtype=np.int64)
    first = n // 3

    def run():
        out = np.zeros(n - first, np.int64)
        call(row_numbers.collect_new, keys, rows, first, out)
        return out

    np.testing.assert_array_equal(same_bits(run), keys[np.argsort(rows)][first:])


@pytest.mark.parametrize("n", SIZES)
def test_first_out_of_range(n, seed):
    random = np.random.RandomState(seed)
    keys = random.randint(0, 1000, n, dtype=np.int64)

    def first(keys, limit, least=0):
        return same_bits(lambda: call(row_numbers.first_out_of_range, keys, limit, least))

    assert first(keys, 1000) == -1
    if n:
        assert first(keys - 500, 500, -500) == -1 and first(np.append(keys - 500, -501), 500, -500) == n
    for bad in (-1, 1000, -2 ** 63, 2 ** 63 - 1):
        for place in {0, n // 2, n - 1} if n else ():
            spoiled = keys.copy()
            spoiled[place] = bad
            spoiled[-1] = bad
            assert first(spoiled, 1000) == place
    if n:
        assert first(keys, 0) == 0


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("missing", [0.0, 0.3, 1.0])
def test_missing_rows(n, missing, seed):
    random = np.random.RandomState(seed)
    rows = np.where(random.uniform(size=n) < missing, -1, random.permutation(n)).astype(np.int32)
    absent = rows < 0
    limit = 7 + absent.sum() // 2

    def run():
        out = dirty(n, np.int32)
        call(row_numbers.number_missing, rows, 7, limit, out)
        return out

    given = 7 + np.cumsum(absent) - 1
    np.testing.assert_array_equal(same_bits(run), np.where(absent, np.where(given < limit, given, -1), rows))

    def run_compact():
        kept, number = dirty(n, np.int32), dirty(n, np.int32)
        count = call(row_numbers.compact, rows, kept, number)
        return kept[:count].copy(), number

    kept, number = same_bits(run_compact)
    np.testing.assert_array_equal(kept, rows[~absent])
    np.testing.assert_array_equal(number, np.where(absent, -1, np.cumsum(~absent) - 1))


@pytest.mark.parametrize("n", [0, 1, 5, 31, 32, 33, 3001])
def test_bags(n, seed):
    lengths = np.random.RandomState(seed).randint(0, 9, n)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)

    def run():
        out = dirty(offsets[-1], np.int64)
        call(bags.of_keys, offsets, 100, out)
        return out

    np.testing.assert_array_equal(same_bits(run), np.repeat(np.arange(100, 100 + n), lengths))
    expected = (lengths.max(), lengths.argmax()) if n and lengths.max() else (0, 0)
    assert same_bits(lambda: call(bags.longest, offsets)) == expected


@pytest.mark.parametrize("longest", [0, 1, 15, 16, 30, 31, 32, 33, 63, 64, 69])
def test_the_first_of_the_longest_bags_wherever_it_is(longest):
    lengths = np.ones(70, np.int64)
    lengths[longest] = 3
    lengths[longest + 1:longest + 40:9] = 3
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    assert same_bits(lambda: call(bags.longest, offsets)) == (3, longest)


@pytest.mark.parametrize("nbytes", [0, 1, 4095, 4 << 20, (8 << 20) + 123])
def test_large_pages_are_only_advice(nbytes):
    """On a GPU it does nothing."""
    out = np.empty(nbytes, np.uint8)
    call(host_memory.advise_large_pages, out)
    out[:] = 7
    assert (out == 7).all()

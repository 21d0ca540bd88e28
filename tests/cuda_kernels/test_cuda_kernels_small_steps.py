"""fill, row_numbers and bags against NumPy."""
import numpy as np
import pytest

from sok1x.cuda_kernels import bags, fill, host, host_memory, row_numbers

SIZES = [0, 1, 2, 1000, 100003]


@pytest.fixture(params=[1, 4], autouse=True)
def threads(request):
    before = host.get_threads()
    host.set_threads(request.param)
    yield
    host.set_threads(before)


@pytest.mark.parametrize("n", SIZES)
def test_fill(n):
    out = np.zeros(n + 1, np.int64)
    fill.fill_int64(out.ctypes.data, n, -1)
    assert (out[:n] == -1).all() and out[n] == 0


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("ranks", [1, 3, 64])
def test_direct_rows(n, ranks, seed):
    keys = np.random.RandomState(seed).randint(0, 2 ** 31 * ranks - 1, n, dtype=np.int64)
    rows = np.empty(n, np.int32)
    row_numbers.direct(keys.ctypes.data, n, ranks, rows.ctypes.data)
    np.testing.assert_array_equal(rows, keys // ranks)


@pytest.mark.parametrize("n", SIZES)
def test_look_up(n, seed):
    random = np.random.RandomState(seed)
    index = random.randint(0, 50, n).astype(np.int32)
    for dtype, function in (("int32", row_numbers.look_up), ("int64", row_numbers.look_up_int64)):
        values = random.randint(-2 ** 31, 2 ** 31 - 1, max(n, 50)).astype(dtype)
        out = np.empty(n, dtype)
        function(values.ctypes.data, index.ctypes.data, n, out.ctypes.data)
        np.testing.assert_array_equal(out, values[index])
        function(values.ctypes.data, 0, n, out.ctypes.data)
        np.testing.assert_array_equal(out, values[:n])


@pytest.mark.parametrize("n", SIZES)
def test_narrow(n, seed):
    rows = np.random.RandomState(seed).randint(-1, 2 ** 31 - 1, n, dtype=np.int64)
    out = np.empty(n, np.int32)
    row_numbers.narrow(rows.ctypes.data, n, out.ctypes.data)
    np.testing.assert_array_equal(out, rows)


@pytest.mark.parametrize("n", SIZES)
def test_collect_new(n, seed):
    random = np.random.RandomState(seed)
    rows = random.permutation(n).astype(np.int32)
    keys = random.randint(-2 ** 63, 2 ** 63 - 1, n, dtype=np.int64)
    first = n // 3
    out = np.zeros(n - first, np.int64)
    row_numbers.collect_new(keys.ctypes.data, rows.ctypes.data, n, first, out.ctypes.data)
    np.testing.assert_array_equal(out, keys[np.argsort(rows)][first:])


@pytest.mark.parametrize("n", SIZES)
def test_first_out_of_range(n, seed):
    random = np.random.RandomState(seed)
    keys = random.randint(0, 1000, n, dtype=np.int64)
    assert row_numbers.first_out_of_range(keys.ctypes.data, n, 1000) == -1
    for bad in (-1, 1000, -2 ** 63, 2 ** 63 - 1):
        for place in {0, n // 2, n - 1} if n else ():
            spoiled = keys.copy()
            spoiled[place] = bad
            spoiled[-1] = bad
            assert row_numbers.first_out_of_range(spoiled.ctypes.data, n, 1000) == place
    if n:
        assert row_numbers.first_out_of_range(keys.ctypes.data, n, 0) == 0


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("missing", [0.0, 0.3, 1.0])
def test_missing_rows(n, missing, seed):
    random = np.random.RandomState(seed)
    rows = np.where(random.uniform(size=n) < missing, -1, random.permutation(n)).astype(np.int32)
    absent = rows < 0
    out = np.empty(n, np.int32)
    limit = 7 + absent.sum() // 2
    row_numbers.number_missing(rows.ctypes.data, n, 7, limit, out.ctypes.data)
    given = 7 + np.cumsum(absent) - 1
    np.testing.assert_array_equal(out, np.where(absent, np.where(given < limit, given, -1), rows))

    kept, number = np.empty(n, np.int32), np.empty(n, np.int32)
    count = row_numbers.compact(rows.ctypes.data, n, kept.ctypes.data, number.ctypes.data)
    np.testing.assert_array_equal(kept[:count], rows[~absent])
    np.testing.assert_array_equal(number, np.where(absent, -1, np.cumsum(~absent) - 1))


@pytest.mark.parametrize("n", [0, 1, 5, 3001])
def test_bags(n, seed):
    lengths = np.random.RandomState(seed).randint(0, 9, n)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    out = np.empty(offsets[-1], np.int64)
    bags.of_keys(offsets.ctypes.data, n, 100, out.ctypes.data)
    np.testing.assert_array_equal(out, np.repeat(np.arange(100, 100 + n), lengths))
    expected = (lengths.max(), lengths.argmax()) if n and lengths.max() else (0, 0)
    assert bags.longest(offsets.ctypes.data, n) == expected


@pytest.mark.parametrize("nbytes", [0, 1, 4095, 4 << 20, (8 << 20) + 123])
def test_large_pages_are_only_advice(nbytes):
    out = np.empty(nbytes, np.uint8)
    host_memory.advise_large_pages(out.ctypes.data, nbytes)
    out[:] = 7
    assert (out == 7).all()

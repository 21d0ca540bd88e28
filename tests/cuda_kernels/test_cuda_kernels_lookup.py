"""look_up against NumPy: rows of positions, values, and what is missing."""
import numpy as np
import pytest

from sok1x.cuda_kernels import hash_index, host, lookup


@pytest.fixture(params=[1, 2, 5], autouse=True)
def threads(request):
    before = host.get_threads()
    host.set_threads(request.param)
    yield
    host.set_threads(before)


@pytest.mark.parametrize("n", [0, 1, 11, 12, 24, 25, 1023, 1025, 9000, 40000])
@pytest.mark.parametrize("key_type", ["int64", "int32", "uint32"])
@pytest.mark.parametrize("absent", [0.0, 0.2, 1.0])
def test_look_up(n, key_type, absent, seed):
    random = np.random.RandomState(seed)
    info, dim = np.iinfo(key_type), int(random.choice([1, 3, 16, 33]))
    known = np.unique(np.concatenate([[info.min, info.max, 0], random.randint(
        info.min, info.max, 5000, dtype=key_type)]).astype(key_type))
    stored = known[random.uniform(size=known.size) >= absent]
    table = random.normal(size=(max(1, stored.size), dim)).astype(np.float32)
    capacity = hash_index.capacity(stored.size)
    index = np.empty((capacity, 2), np.int64)
    hash_index.clear(index.ctypes.data, capacity)
    assert (index == [0, -1]).all()
    wide, given = stored.astype(np.int64), np.full(stored.size, -1, np.int32)
    hash_index.insert(index.ctypes.data, capacity, wide.ctypes.data, stored.size, given.ctypes.data, 0)
    keys = random.choice(known, n)
    row_of = dict(zip(stored.tolist(), range(stored.size)))
    expected = np.array([row_of.get(key, -1) for key in keys.tolist()], np.int32)
    for with_values in (True, False):
        rows, out = np.full(n, 77, np.int32), np.full((n, dim), 7.0, np.float32)
        missing = lookup.look_up(
            keys.ctypes.data, key_type, n, index.ctypes.data, capacity, table.ctypes.data, dim, rows.ctypes.data,
            out.ctypes.data if with_values else 0)
        np.testing.assert_array_equal(rows, expected)
        assert missing == (expected < 0).sum()
        there = (expected >= 0) & with_values
        np.testing.assert_array_equal(out[there], table[expected[there]])
        assert (out[~there] == 7.0).all()

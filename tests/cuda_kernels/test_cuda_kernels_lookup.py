"""look_up against NumPy: rows of positions, values, and what is missing."""
import numpy as np
import pytest
from kernel_devices import call, on_gpu, same_bits, size

from sok1x.cuda_kernels import hash_index, lookup


def make_index(keys):
    """An index in which keys[i], distinct, has row i; and its capacity."""
    capacity = hash_index.capacity(keys.size)
    index = np.empty((capacity, 2), np.int64)
    call(hash_index.clear, index)
    assert (index == [0, -1]).all()
    given = np.full(keys.size, -1, np.int32)
    assert call(hash_index.insert, index, keys.astype(np.int64), given, 0) == keys.size
    return index, capacity


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("n", [0, 1, 11, 12, 24, 25, 1023, 1025, 9000, size(40000)])
@pytest.mark.parametrize("key_type", ["int64", "int32", "uint32"])
@pytest.mark.parametrize("absent", [0.0, 0.2, 1.0])
def test_look_up(n, key_type, absent, seed):
    random = np.random.RandomState(seed)
    info, dim = np.iinfo(key_type), int(random.choice([1, 3, 16, 33]))
    known = np.unique(np.concatenate([[info.min, info.max, 0], random.randint(
        info.min, info.max, 5000, dtype=key_type)]).astype(key_type))
    stored = known[random.uniform(size=known.size) >= absent]
    table = random.normal(size=(max(1, stored.size), dim)).astype(np.float32)
    index, capacity = make_index(stored)
    keys = random.choice(known, n)
    row_of = dict(zip(stored.tolist(), range(stored.size)))
    expected = np.array([row_of.get(key, -1) for key in keys.tolist()], np.int32)

    def run(with_values):
        rows, out = np.full(n, 77, np.int32), np.full((n, dim), 7.0, np.float32)
        missing = call(lookup.look_up, keys, index, table, rows, out if with_values else None)
        return missing, rows, out

    for with_values in (True, False):
        missing, rows, out = same_bits(lambda: run(with_values))
        np.testing.assert_array_equal(rows, expected)
        assert missing == (expected < 0).sum()
        there = (expected >= 0) & with_values
        np.testing.assert_array_equal(out[there], table[expected[there]])
        if not (on_gpu() and with_values):  # a GPU has zeros for missing keys
            assert (out[~there] == 7.0).all()

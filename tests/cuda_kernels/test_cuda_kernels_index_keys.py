"""keys_by_row and direct_keys against NumPy."""
import numpy as np
import pytest
from kernel_checks import EXTREMES, dirty
from kernel_devices import call, same_bits, size

from sok1x.cuda_kernels import hash_index, index_keys

pytestmark = pytest.mark.usefixtures("device")


@pytest.mark.parametrize("used", [0, 1, 7, 40000])
def test_keys_by_row(seed, used):
    """Of all rows, and of some from the middle; rows not in use keep what was there."""
    random = np.random.RandomState(seed)
    keys = np.unique(np.concatenate([EXTREMES, random.randint(-2 ** 62, 2 ** 62, size(used))]))
    keys = random.permutation(keys)[:size(used)]
    used, unused = len(keys), 5
    capacity = hash_index.capacity(used + unused)
    # An empty slot may hold any key, and a row beyond those asked for is not this call's.
    index = np.full((capacity, 2), -1, np.int64)
    index[:, 0] = random.randint(0, 9, capacity)
    call(hash_index.insert, index, keys, np.full(used, -1, np.int32), 0)
    for first, n in ((0, used + unused), (0, used // 2), (used // 3, used // 2), (used, unused), (used // 2, 0)):
        def run(first=first, n=n):
            out = dirty(n, np.int64)
            call(index_keys.keys_by_row, index, first, out)
            return out

        expected = dirty(n, np.int64)
        there = keys[first:first + n]
        expected[:len(there)] = there
        np.testing.assert_array_equal(same_bits(run), expected)


@pytest.mark.parametrize("first, n, ranks, rank", [
    (0, 0, 1, 0), (0, 1, 1, 0), (0, 50001, 1, 0), (12345, 50001, 7, 6), (2 ** 31 - 3, 3, 1024, 1023)])
def test_direct_keys(first, n, ranks, rank):
    def run():
        out = dirty(n, np.int64)
        call(index_keys.direct_keys, first, ranks, rank, out)
        return out

    np.testing.assert_array_equal(same_bits(run), np.arange(first, first + n, dtype=np.int64) * ranks + rank)

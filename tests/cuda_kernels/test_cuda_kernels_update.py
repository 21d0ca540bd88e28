"""descend against NumPy, to the bit."""
import numpy as np
import pytest

from sok1x.cuda_kernels import host, update


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("dim", [1, 3, 4, 16, 32, 33, 128, 1025])
def test_descend(threads, dim, seed):
    random = np.random.RandomState(seed)
    before = host.get_threads()
    host.set_threads(threads)
    try:
        for n in (0, 1, 2, 700):
            table = random.normal(size=(1000, dim)).astype(np.float32)
            rows = random.permutation(1000)[:n].astype(np.int32)
            values = random.normal(size=(n, dim)).astype(np.float32)
            if n:
                values[0, 0], values[-1, -1] = np.nan, np.inf
            expected = table.copy()
            expected[rows] -= np.float32(0.3) * values
            update.descend(values.ctypes.data, dim, rows.ctypes.data, n, np.float32(0.3), table.ctypes.data)
            np.testing.assert_array_equal(table, expected)
    finally:
        host.set_threads(before)

"""descend against NumPy, to the bit."""
import numpy as np
import pytest
from kernel_checks import DIMS
from kernel_devices import call, same_bits

from sok1x.cuda_kernels import update


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("dim", DIMS)
def test_descend(dim, seed):
    random = np.random.RandomState(seed)
    for n in (0, 1, 2, 700):
        before = random.normal(size=(1000, dim)).astype(np.float32)
        rows = random.permutation(1000)[:n].astype(np.int32)
        values = random.normal(size=(n, dim)).astype(np.float32)
        if n:
            values[0, 0], values[-1, -1] = np.nan, np.inf
        expected = before.copy()
        expected[rows] -= np.float32(0.3) * values

        def run():
            table = before.copy()
            call(update.descend, values, dim, rows, n, np.array(0.3, np.float32), table)
            return table

        np.testing.assert_array_equal(same_bits(run), expected)

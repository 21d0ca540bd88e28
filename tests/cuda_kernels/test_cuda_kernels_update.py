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
            call(update.descend, values, rows, np.array(0.3, np.float32), table)
            return table

        np.testing.assert_array_equal(same_bits(run), expected)


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("dim", [1, 4, 6])
def test_rows_outside_the_table_are_left_out(dim):
    rows = np.array([3, -1, 7, 8, 2 ** 31 - 1, -2 ** 31, 0], np.int32)
    table = np.zeros((10, dim), np.float32)  # of which the kernel is told the first 8
    call(update.descend, np.ones((7, dim), np.float32), rows, np.array(1, np.float32), table[:8])
    assert np.flatnonzero(table.any(1)).tolist() == [0, 3, 7]

"""gather, gather_through and scatter against NumPy's indexing."""
import numpy as np
import pytest
from kernel_checks import DIMS, dirty
from kernel_devices import call, host_only, same_bits, size

from sok1x.cuda_kernels import gather, scatter

pytestmark = pytest.mark.usefixtures("device")


def take(table, rows):
    return np.where((rows >= 0)[:, None], table[np.maximum(rows, 0)], np.float32(0))


@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("n", [0, 1, 3, 17, 3001])
def test_gather_and_gather_through(seed, dim, n):
    random = np.random.RandomState(seed)
    table = random.standard_normal((701, dim)).astype(np.float32)
    index = random.randint(-1, 701, n).astype(np.int32)

    def direct():
        out = dirty((n, dim))
        call(gather.gather, table, index, out)
        return out

    np.testing.assert_array_equal(same_bits(direct), take(table, index))
    rows = random.randint(-1, 701, 350).astype(np.int32)
    inverse = random.randint(0, 350, n).astype(np.int32)

    def through():
        out = dirty((n, dim))
        call(gather.gather_through, table, rows, inverse, out)
        return out

    np.testing.assert_array_equal(same_bits(through), take(table, rows[inverse]))


@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("n", [0, 1, 3, 17, 3001])
def test_scatter_writes_the_last_of_equal_rows_and_nothing_else(seed, dim, n):
    random = np.random.RandomState(seed)
    values = random.standard_normal((n, dim)).astype(np.float32)
    rows = random.randint(-1, 701, n).astype(np.int32)
    expected = dirty((701, dim))
    for i in range(n):
        if rows[i] >= 0:
            expected[rows[i]] = values[i]

    def run():
        table = dirty((701, dim))
        call(scatter.scatter, values, rows, table)
        return table

    assert same_bits(run).tobytes() == expected.tobytes()


@pytest.mark.parametrize("distinct", [1, 5, 1000])
def test_of_many_equal_rows_the_last_wins(seed, distinct):
    n = size(100000)
    rows = np.random.RandomState(seed).randint(0, distinct, n).astype(np.int32)
    values = np.arange(2 * n, dtype=np.float32).reshape(n, 2)
    expected = dirty((distinct, 2))
    expected[rows] = values  # NumPy assigns in order

    def run():
        table = dirty((distinct, 2))
        call(scatter.scatter, values, rows, table)
        return table

    np.testing.assert_array_equal(same_bits(run), expected)


@host_only  # on a GPU: tests/gpu
def test_rows_beyond_2_to_the_31_floats():
    # Pages of a fresh mapping that nobody touches cost no memory: 9 GB of address space, four rows of it used.
    dim, rows = 1025, 2200000
    table = np.zeros((rows, dim), np.float32)
    index = np.array([rows - 1, 0, 2 ** 31 // dim + 1, -1], np.int32)
    values = np.arange(4 * dim, dtype=np.float32).reshape(4, dim) + 1
    call(scatter.scatter, values, index, table)
    np.testing.assert_array_equal(table[index[:3]], values[:3])
    out = dirty((4, dim))
    call(gather.gather, table, index, out)
    np.testing.assert_array_equal(out, take(values, np.array([0, 1, 2, -1])))


def test_nan_and_inf_stay_in_their_row():
    table = np.ones((3, 33), np.float32)
    table[1, ::2], table[1, 1::2] = np.nan, np.inf
    out = dirty((4, 33))
    call(gather.gather, table, np.array([0, 1, 2, -1], np.int32), out)
    np.testing.assert_array_equal(out, np.concatenate([table, np.zeros((1, 33), np.float32)]))

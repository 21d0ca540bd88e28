"""segment_sum against NumPy sums in the same order."""
import numpy as np
import pytest
from kernel_checks import DIMS, address, dirty, same_bits

from sok1x.cuda_kernels import segment_sum


def run(values, ids, num_segments):
    out = dirty((num_segments, values.shape[1]))
    segment_sum.segment_sum(address(values), values.shape[1], address(ids), len(ids), num_segments, address(out))
    return out


def oracle(values, ids, num_segments):
    out = np.zeros((num_segments, values.shape[1]), np.float32)
    kept = ids >= 0
    np.add.at(out, ids[kept], values[kept])  # unbuffered: one by one, in index order
    return out


@pytest.mark.parametrize("dim", DIMS)
def test_sums_in_index_order_for_every_kind_of_ids(seed, dim):
    random = np.random.RandomState(seed)
    n = 200 if dim > 1000 else 2000
    values = random.standard_normal((n, dim)).astype(np.float32)
    first_seen = np.minimum(random.randint(0, n, n), np.arange(n) // 2)
    kinds = {
        "random": (random.randint(0, n // 3, n), n // 3),
        "with gaps and dropped": (random.randint(-1, 2 * n, n), 2 * n + 7),
        "first appearance": (first_seen, n),
        "falling": (np.arange(n)[::-1], n),
        "all equal": (np.full(n, 5), 9),
        "all dropped": (np.full(n, -1), 4),
        "one segment": (np.zeros(n), 1),
    }
    for name, (ids, num_segments) in kinds.items():
        ids = ids.astype(np.int32)
        got = same_bits(lambda: run(values, ids, num_segments))
        np.testing.assert_array_equal(got, oracle(values, ids, num_segments), err_msg=name)


@pytest.mark.parametrize("num_segments", [0, 1, 100])
def test_no_rows(num_segments):
    out = run(np.zeros((0, 6), np.float32), np.zeros(0, np.int32), num_segments)
    np.testing.assert_array_equal(out, np.zeros((num_segments, 6)))


def test_large_enough_for_all_threads_to_work(seed):
    random = np.random.RandomState(seed)
    for dim in (1, 5, 32, 80):
        values = random.standard_normal((60000, dim)).astype(np.float32)
        ids = random.randint(-1, 40000, 60000).astype(np.int32)
        np.testing.assert_array_equal(same_bits(lambda: run(values, ids, 40000)), oracle(values, ids, 40000))


def test_minus_zero_is_summed_as_zero_plus_it_for_any_number_of_threads():
    values = np.full((4096, 3), -0.0, np.float32)
    out = same_bits(lambda: run(values, np.arange(4096, dtype=np.int32)[::-1].copy(), 4096))
    assert not np.signbit(out).any()


def test_nan_and_inf_stay_in_their_segment():
    values = np.ones((4, 33), np.float32)
    values[1], values[2] = np.nan, np.inf
    out = run(values, np.array([0, 1, 2, 0], np.int32), 4)
    assert (out[0] == 2).all() and np.isnan(out[1]).all() and np.isinf(out[2]).all() and (out[3] == 0).all()

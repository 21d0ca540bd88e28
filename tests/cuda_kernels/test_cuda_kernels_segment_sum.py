"""segment_sum against NumPy sums in the same order."""
import numpy as np
import pytest
from kernel_checks import DIMS, check_sums, dirty
from kernel_devices import SMALL, call, deterministic, gpu_only, on, same_bits, size

from sok1x.cuda_kernels import segment_sum

pytestmark = pytest.mark.usefixtures("device")


def run(values, ids, num_segments):
    out = dirty((num_segments, values.shape[1]))
    call(segment_sum.segment_sum, values, ids, out)
    return out


def oracle(values, ids, num_segments):
    out = np.zeros((num_segments, values.shape[1]), np.float32)
    kept = ids >= 0
    np.add.at(out, ids[kept], values[kept])  # unbuffered: one by one, in index order
    return out


def check(values, ids, num_segments):
    check_sums(lambda: run(values, ids, num_segments), oracle(values, ids, num_segments), values, ids)


@pytest.mark.parametrize("dim", DIMS)
def test_sums_in_index_order_for_every_kind_of_ids(seed, dim):
    random = np.random.RandomState(seed)
    n = 200 if dim > 1000 or SMALL else 2000
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
        print(name)
        check(values, ids.astype(np.int32), num_segments)


# A GPU's team of threads takes 32 sources, in the order of their segments, at a time.
CHUNK = segment_sum.CHUNK
LENGTHS = {
    "whole chunks": [CHUNK] * 5,
    "a chunk's border is a segment's": [CHUNK - 1, 1, CHUNK // 2, CHUNK // 2, CHUNK],
    "one off": [CHUNK - 1, CHUNK + 1, CHUNK + 1, CHUNK - 1, 2],
    "one before, one behind": [1, CHUNK, CHUNK, CHUNK, 1],
    "several chunks": [2 * CHUNK, 1, 3 * CHUNK - 1, 4 * CHUNK, 5, 4 * CHUNK + 7],
    "single sources": [1] * (3 * CHUNK),
    "with empty ones": [0, 0, CHUNK, 0, 0, CHUNK + 1, 0, CHUNK - 1, 0],
    "last chunk with one source": [CHUNK, CHUNK, 1],
    "blocks of chunks": [256 * CHUNK, 7, 256 * CHUNK],
}


@pytest.mark.parametrize("lengths", sorted(LENGTHS))
@pytest.mark.parametrize("dim", [1, 2, 4, 33])
def test_segments_that_meet_at_the_borders_of_chunks(seed, lengths, dim):
    random = np.random.RandomState(seed)
    lengths = LENGTHS[lengths]
    ids = np.repeat(np.arange(len(lengths)), lengths).astype(np.int32)
    values = random.standard_normal((len(ids) + 5, dim)).astype(np.float32)
    check(values[:-5].copy(), ids, len(lengths))
    check(values[:-5].copy(), random.permutation(ids), len(lengths))
    dropped = np.insert(ids, [0, 1, len(ids) // 2, len(ids), len(ids)], -1)
    check(values, dropped, len(lengths))


@pytest.mark.parametrize("dim", [1, 3, 16])
def test_a_million_sources_of_one_segment(seed, dim):
    n = size(10 ** 6)
    values = np.random.RandomState(seed).standard_normal((n, dim)).astype(np.float32)
    ids = np.full(n, 3, np.int32)
    in_order = np.zeros((7, dim), np.float32)
    in_order[3] = np.cumsum(values, axis=0, dtype=np.float32)[-1]  # one by one, in index order
    check_sums(lambda: run(values, ids, 7), in_order, values, ids)


@pytest.mark.parametrize("n", [1, 32, 1000])
def test_all_segments_empty(n):
    for num_segments in (0, 1, 5, 2048, 2049):
        ids = np.full(n, -1, np.int32)
        check(np.full((n, 6), np.nan, np.float32), ids, num_segments)


@gpu_only
def test_a_deterministic_gpu_has_the_host_s_bits(seed):
    random = np.random.RandomState(seed)
    values = random.standard_normal((size(100000), 5)).astype(np.float32)
    ids = random.randint(-1, 3000, len(values)).astype(np.int32)
    with on("host"):
        expected = run(values, ids, 3000)
    with deterministic():
        assert same_bits(lambda: run(values, ids, 3000)).tobytes() == expected.tobytes()


@pytest.mark.parametrize("num_segments", [0, 1, 100])
def test_no_rows(num_segments):
    out = run(np.zeros((0, 6), np.float32), np.zeros(0, np.int32), num_segments)
    np.testing.assert_array_equal(out, np.zeros((num_segments, 6)))


def test_large_enough_for_all_threads_to_work(seed):
    random = np.random.RandomState(seed)
    for dim in (1, 5, 32, 80):
        n = size(60000)
        values = random.standard_normal((n, dim)).astype(np.float32)
        check(values, random.randint(-1, 40000, n).astype(np.int32), 40000)


def test_minus_zero_is_summed_as_zero_plus_it_for_any_number_of_threads():
    values = np.full((4096, 3), -0.0, np.float32)
    out = same_bits(lambda: run(values, np.arange(4096, dtype=np.int32)[::-1].copy(), 4096))
    assert not np.signbit(out).any()


def test_nan_and_inf_stay_in_their_segment():
    values = np.ones((4, 33), np.float32)
    values[1], values[2] = np.nan, np.inf
    out = run(values, np.array([0, 1, 2, 0], np.int32), 4)
    assert (out[0] == 2).all() and np.isnan(out[1]).all() and np.isinf(out[2]).all() and (out[3] == 0).all()

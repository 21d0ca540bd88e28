"""Sums of float16 and float64 rows, segment numbers, and each term's row of the sums, against NumPy."""
import contextlib

import numpy as np
import pytest
from kernel_checks import DIMS, EXTREMES, check_sums, dirty
from kernel_devices import SMALL, call, deterministic, gpu_only, on, on_gpu, same_bits, size

from sok1x.cuda_kernels import backend, segment_sum, segments

pytestmark = pytest.mark.usefixtures("device")


def run(values, ids, num_segments):
    dtype = values.dtype.name
    out = dirty((num_segments, values.shape[1]), segment_sum.SUMS[dtype])
    call(segment_sum.segment_sum, values, ids, out)
    return out


def in_order(values, ids, num_segments):
    out = np.zeros((num_segments, values.shape[1]), segment_sum.SUMS[values.dtype.name])
    np.add.at(out, ids[ids >= 0], values[ids >= 0].astype(out.dtype))  # unbuffered: one by one, in index order
    return out


def check(values, ids, num_segments):
    ids = ids.astype(np.int32)
    expected = in_order(values, ids, num_segments)
    if values.dtype == np.float16:
        check_sums(lambda: run(values, ids, num_segments), expected, values.astype(np.float32), ids)
        return
    with deterministic() if on_gpu() else contextlib.nullcontext():
        np.testing.assert_array_equal(same_bits(lambda: run(values, ids, num_segments)), expected)
    if on_gpu():
        absolute = in_order(np.abs(values), ids, num_segments)
        assert (np.abs(run(values, ids, num_segments) - expected) <= len(ids) * 2.0 ** -52 * absolute).all()


@pytest.mark.parametrize("dtype", ["float16", "float64"])
@pytest.mark.parametrize("dim", DIMS)
def test_sums_in_index_order_for_every_kind_of_ids(seed, dim, dtype):
    random = np.random.RandomState(seed)
    n = 200 if dim > 1000 or SMALL else 2000
    values = random.standard_normal((n, dim)).astype(dtype)
    kinds = {
        "random": (random.randint(0, n // 3, n), n // 3),
        "with gaps and dropped": (random.randint(-1, 2 * n, n), 2 * n + 7),
        "first appearance": (np.minimum(random.randint(0, n, n), np.arange(n) // 2), n),
        "all equal": (np.full(n, 5), 9),
        "all dropped": (np.full(n, -1), 4),
    }
    for name, (ids, num_segments) in kinds.items():
        print(name)
        check(values, ids, num_segments)
    for num_segments in (0, 1, 100):
        check(values[:0], np.zeros(0), num_segments)


@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_large_enough_for_all_threads_to_work(seed, dtype):
    random = np.random.RandomState(seed)
    for dim in (1, 3, 16):
        n = size(60000)
        check(random.standard_normal((n, dim)).astype(dtype), random.randint(-1, 40000, n), 40000)


def test_halves_are_summed_in_32_bits():
    """In 16 bits the sum of ones would stay at 2048, and that of the largest be infinite."""
    values = np.ones((size(5000), 2), np.float16)
    values[:, 1] = np.finfo(np.float16).max
    sums = run(values, np.zeros(len(values), np.int32), 1)
    assert sums.tolist() == [[len(values), 65504 * len(values)]]


@gpu_only
@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_a_deterministic_gpu_has_the_host_s_bits(seed, dtype):
    random = np.random.RandomState(seed)
    values = random.standard_normal((size(50000), 6)).astype(dtype)
    ids = random.randint(-1, 3000, len(values)).astype(np.int32)
    with on("host"):
        expected = run(values, ids, 3000)
    with deterministic():
        assert same_bits(lambda: run(values, ids, 3000)).tobytes() == expected.tobytes()


@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_not_a_number_stays_in_its_segment(dtype):
    values = np.ones((4, 33), dtype)
    values[1], values[2] = np.nan, np.inf
    out = run(values, np.array([0, 1, 2, 0], np.int32), 4)
    assert (out[0] == 2).all() and np.isnan(out[1]).all() and np.isinf(out[2]).all() and (out[3] == 0).all()


def numbers(ids, num_segments):
    """(numbers, lowest position of an id that is too large, or -1)."""
    def wrapped(ids, out):
        counts = backend.counts()
        segments.numbers(ids, num_segments, out, counts.take())
        return counts.read()[0]

    out = dirty(len(ids), np.int32)
    from_end = call(wrapped, ids, out)
    return out, len(ids) - from_end if from_end else -1


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("n", [0, 1, 33, 100001])
def test_segment_numbers(seed, n, dtype):
    random = np.random.RandomState(seed)
    for low, high in ((0, 50), (-50, 50), (-50, 80), (50, 60)):
        ids = random.randint(low, high, n).astype(dtype)
        expected = np.where((ids < 0) | (ids >= 50), -1, ids)
        large = np.flatnonzero(ids >= 50)
        out, first = numbers(ids, 50)
        np.testing.assert_array_equal(out, expected)
        assert first == (large[0] if large.size else -1)


def test_segment_numbers_that_do_not_fit_32_bits():
    out, first = numbers(np.concatenate([EXTREMES, [2 ** 32 + 1]]), 2)
    np.testing.assert_array_equal(out, [-1, -1, 0, -1, -1, 1, -1, -1])
    assert first == 3
    assert numbers(EXTREMES, 0)[0].tolist() == [-1] * len(EXTREMES)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("dim", DIMS)
def test_rows_of_segments(seed, dim, dtype):
    random = np.random.RandomState(seed)
    sums = random.standard_normal((301, dim)).astype(dtype)
    for n in (0, 1, 1003):
        ids = random.randint(-1, 301, n).astype(np.int32)

        def rows():
            out = dirty((n, dim), dtype)
            call(segments.rows_of, sums, ids, out)
            return out

        np.testing.assert_array_equal(same_bits(rows), np.where((ids >= 0)[:, None], sums[ids], sums.dtype.type(0)))

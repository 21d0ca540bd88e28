"""The GPU's sort and running sum against NumPy's; the host has neither."""
import numpy as np
import pytest
from kernel_checks import dirty
from kernel_devices import call, gpu_only, same_bits, size

from sok1x.cuda_kernels import scan, sort

pytestmark = [pytest.mark.usefixtures("device"), gpu_only]
TILE = sort.TILE
SIZES = [0, 1, 31, 32, 33, 255, 256, 257, TILE - 1, TILE, TILE + 1, 5 * TILE, size(100003), size(10 ** 6)]


def run_order(keys, limit):
    sorted_keys, places = dirty(len(keys), np.uint32), dirty(len(keys), np.int32)
    call(sort.order, keys, limit, sorted_keys, places)
    return sorted_keys, places


def check_order(keys, limit):
    given = keys.copy()
    sorted_keys, places = same_bits(lambda: run_order(keys, limit))
    expected = np.argsort(keys, kind="stable")
    np.testing.assert_array_equal(places, expected)
    np.testing.assert_array_equal(sorted_keys, keys[expected])
    np.testing.assert_array_equal(keys, given)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("limit", [1, 2, 255, 256, 257, 65536, 65537, 2 ** 24, 2 ** 24 + 1, 2 ** 32])
def test_sort_is_stable(seed, n, limit):
    """Limits at the borders of one, two, three and four passes."""
    random = np.random.RandomState(seed)
    keys = random.randint(0, limit, n, dtype=np.uint64).astype(np.uint32)
    if n > 2:
        keys[[0, n // 2, -1]] = limit - 1
    check_order(keys, limit)


@pytest.mark.parametrize("kind", ["rising", "falling", "all equal", "one digit a warp", "last digit only", "few"])
def test_sort_of_special_keys(seed, kind):
    n = size(100003)
    at = np.arange(n)
    keys = {"rising": at, "falling": n - 1 - at, "all equal": 0 * at + 77, "one digit a warp": at // 32 % 256,
            "last digit only": at % 256 << 16, "few": np.random.RandomState(seed).randint(0, 3, n) * 40000}[kind]
    check_order(keys.astype(np.uint32), int(keys.max()) + 1)


@pytest.mark.parametrize("limit", [253, 254, 256, 2 ** 16 - 3, 2 ** 16 - 2, 2 ** 24, 2 ** 31])
def test_negative_numbers_come_last(seed, limit):
    """Of limits up to which the highest keys and negative ones end in the same bits, too."""
    random, n = np.random.RandomState(seed), 5000
    keys = random.randint(max(0, limit - 5), limit, n)
    keys[random.random_sample(n) < 0.5] = random.randint(-3, 0)
    keys = keys.astype(np.int32)
    sorted_keys, places = dirty(n, np.int32), dirty(n, np.int32)
    call(sort.order, keys, limit, sorted_keys, places)
    known = int((keys >= 0).sum())
    order = np.argsort(keys, kind="stable")[n - known:]
    np.testing.assert_array_equal(places[:known], order)
    np.testing.assert_array_equal(sorted_keys[:known], keys[order])
    assert (sorted_keys[known:] < 0).all() and sorted(places) == list(range(n))


@pytest.mark.parametrize("n", [1, 2, 3, 5, 31, 33, 100])
def test_permutations_of_few_keys(seed, n):
    random = np.random.RandomState(seed)
    for _ in range(10):
        check_order(random.permutation(n).astype(np.uint32), n)


@pytest.mark.parametrize("n", SIZES + [64 * TILE, 64 * TILE + 1])
@pytest.mark.parametrize("in_place", [False, True])
def test_running_sum(seed, n, in_place):
    random = np.random.RandomState(seed)
    for values in (random.randint(0, 2000, n), np.ones(n), np.zeros(n)):
        values = values.astype(np.int32)

        def run():
            out = dirty(n + 2, np.int32)
            if in_place:
                out[:n] = values
            sums = out[:n + 1]
            call(lambda given, out: scan.running_sum(given, out, scan.state(n)), sums if in_place else values, sums)
            return out

        out = same_bits(run)
        assert out[n + 1:].tobytes() == dirty(1, np.int32).tobytes()
        if n:
            np.testing.assert_array_equal(out[:n + 1], np.concatenate([[0], np.cumsum(values)]))


def test_running_sums_up_to_the_largest_int():
    values = np.zeros(size(10 ** 6), np.int32)
    values[[0, 5000, -1]] = 2 ** 30, 2 ** 30 - 2, 1
    out = dirty(len(values) + 1, np.int32)
    call(lambda given, out: scan.running_sum(given, out, scan.state(len(values))), values, out)
    np.testing.assert_array_equal(out, np.concatenate([[0], np.cumsum(values)]))
    assert out[-1] == 2 ** 31 - 1

"""partition, permute and remap against NumPy's stable argsort."""
import numpy as np
import pytest
from kernel_checks import EXTREMES, dirty, edge_keys
from kernel_devices import call, same_bits

from sok1x.cuda_kernels import partition

pytestmark = pytest.mark.usefixtures("device")


def run_partition(keys, parts):
    counts = dirty(parts, np.int64)
    grouped, position = dirty(len(keys), np.int64), dirty(len(keys), np.int32)
    call(partition.partition, keys, counts, grouped, position)
    return counts, grouped, position


@pytest.mark.parametrize("parts", [1, 2, 3, 4, 7, 8, 64, 256, 300, 1000])
def test_keys_are_grouped_by_mathematical_modulo_in_a_stable_way(seed, parts):
    random = np.random.RandomState(seed)
    for name, keys in edge_keys(random).items():
        owner = keys % parts
        order = np.argsort(owner, kind="stable")
        counts, grouped, position = same_bits(lambda: run_partition(keys, parts))
        np.testing.assert_array_equal(counts, np.bincount(owner, minlength=parts), err_msg=name)
        np.testing.assert_array_equal(grouped, keys[order], err_msg=name)
        expected = np.empty(len(keys), np.int32)
        expected[order] = np.arange(len(keys))
        np.testing.assert_array_equal(position, expected, err_msg=name)


def test_owners_of_int64_extremes_are_those_of_python():
    for parts in (1, 2, 3, 5, 8, 10):
        for key in EXTREMES:
            counts, _, _ = run_partition(np.array([key], np.int64), parts)
            assert list(np.nonzero(counts)[0]) == [int(key) % parts]


@pytest.mark.parametrize("n", [0, 1, 5, 100003])
def test_permute_and_remap(seed, n):
    random = np.random.RandomState(seed)
    position = random.permutation(n).astype(np.int32)
    values = random.randint(-2 ** 62, 2 ** 62, n)
    expected = np.empty(n, np.int64)
    expected[position] = values

    def permute():
        out = dirty(n, np.int64)
        call(partition.permute, values, position, out)
        return out

    np.testing.assert_array_equal(same_bits(permute), expected)
    inverse = random.randint(0, n, 2 * n).astype(np.int32) if n else np.zeros(0, np.int32)

    def remap():
        changed = inverse.copy()
        call(partition.remap, changed, position)
        return changed

    np.testing.assert_array_equal(same_bits(remap), position[inverse])

"""unique and widen against np.unique."""
import numpy as np
import pytest
from kernel_checks import EXTREMES, dirty, edge_keys, first_appearance
from kernel_devices import NONSENSE, call, rounds, same_bits, size

from sok1x.cuda_kernels import unique

pytestmark = pytest.mark.usefixtures("device")


def run_unique(keys, key_type):
    values, inverse = dirty(len(keys), np.int64), dirty(len(keys), np.int32)
    scratch = dirty(call(unique.scratch_bytes, len(keys)) + 8, np.uint8)
    count = call(unique.unique, keys, values, inverse, scratch)
    assert (scratch[-8:] == NONSENSE).all(), "wrote past the scratch it asked for"
    return values[:count].copy(), inverse


@pytest.mark.parametrize("key_type", ["int64", "int32", "uint32"])
def test_distinct_keys_in_order_of_first_appearance(seed, key_type):
    random = np.random.RandomState(seed)
    for name, keys in edge_keys(random).items():
        keys = keys.astype(key_type)
        expected_values, expected_inverse = first_appearance(keys.astype(np.int64))
        values, inverse = same_bits(lambda: run_unique(keys, key_type))
        np.testing.assert_array_equal(values, expected_values, err_msg=name)
        np.testing.assert_array_equal(inverse, expected_inverse, err_msg=name)


@pytest.mark.parametrize("key_type", ["int64", "int32", "uint32"])
def test_a_million_equal_keys(key_type):
    """All threads of a GPU want the same place of the scratch table."""
    keys = np.full(size(10 ** 6), 2 ** 31 - 1, key_type)
    values, inverse = same_bits(lambda: run_unique(keys, key_type))
    assert values.tolist() == [2 ** 31 - 1] and not inverse.any()


def test_random_sizes_around_the_batch(seed):
    random = np.random.RandomState(seed)
    for n in list(range(rounds(70))) + [127, 128, 129, 1023, 2047, 2048, 2049, 4096, 4097, 8191, 8192, 8193, 16385]:
        keys = random.randint(-n - 1, n + 1, n).astype(np.int64)
        values, inverse = same_bits(lambda: run_unique(keys, "int64"))
        expected_values, expected_inverse = first_appearance(keys)
        np.testing.assert_array_equal(values, expected_values)
        np.testing.assert_array_equal(inverse, expected_inverse)


@pytest.mark.parametrize("key_type", ["int64", "int32", "uint32"])
def test_widen_keeps_the_sign_of_signed_keys_only(seed, key_type):
    random = np.random.RandomState(seed)
    for keys in (EXTREMES, random.randint(-2 ** 62, 2 ** 62, 100001), np.zeros(0, np.int64)):
        keys = keys.astype(key_type)
        out = dirty(len(keys), np.int64)
        call(unique.widen, keys, out)
        np.testing.assert_array_equal(out, keys.astype(np.int64))


def test_too_many_keys_are_refused_when_scratch_is_sized():
    assert call(unique.scratch_bytes, 2 ** 31 - 1) > 0
    with pytest.raises(ValueError, match="2147483648"):
        call(unique.scratch_bytes, 2 ** 31)

"""Inf and NaN are found wherever they are."""
import numpy as np
import pytest
from kernel_devices import call, size

from sok1x.cuda_kernels import backend, finite

pytestmark = pytest.mark.usefixtures("device")


def finds(values):
    def start_and_read(array):
        counts = backend.counts()
        finite.start_count(array, counts.take())
        return counts.read()

    (count,) = call(start_and_read, values)
    assert count >= 0
    return count > 0


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("n", [1, 2, 3, 7, 8, 9, 1023, size(100003)])
def test_one_that_is_not_finite_is_found_anywhere(seed, dtype, n):
    random = np.random.RandomState(seed)
    kind = np.finfo(dtype)
    values = random.standard_normal(n).astype(dtype)
    edges = np.array([0, -0.0, kind.max, kind.min, kind.tiny, kind.tiny / 2], dtype)
    values[random.randint(0, n, n // 3)] = random.choice(edges)
    assert not finds(values)
    for place in {0, n // 2, n - 1, int(random.randint(n))}:
        for bad in (np.inf, -np.inf, np.nan, -np.nan):
            changed = values.copy()
            changed[place] = bad
            assert finds(changed), (place, bad)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_not_aligned(dtype):
    """A view into a tensor begins anywhere."""
    for start in range(1, 9):
        whole = np.zeros(50, dtype)
        assert not finds(whole[start:start + 20])
        whole[[start - 1, start + 20]] = np.inf
        assert not finds(whole[start:start + 20])
        whole[start + 19] = np.nan
        assert finds(whole[start:start + 20])


def test_none():
    assert not finds(np.zeros(0, np.float32))


def test_bits_of_every_half():
    every = np.arange(65536, dtype=np.uint16).view(np.float16)
    assert not finds(every[np.isfinite(every)])
    for bad in every[~np.isfinite(every)][::97]:
        assert finds(np.array([1, bad, 1], np.float16))

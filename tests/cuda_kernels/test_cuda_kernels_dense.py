"""Copies, divisions and 16-bit floats against NumPy."""
import numpy as np
import pytest
from kernel_devices import call, same_bits, size

from sok1x.cuda_kernels import dense

pytestmark = pytest.mark.usefixtures("device")


def narrowed(values):
    out = np.empty(values.size, np.float16)
    call(dense.narrow_half, values, out)
    return out


def test_every_half_is_widened_and_narrowed_back():
    halves = np.arange(65536, dtype=np.uint16).view(np.float16)
    wide = np.empty(65536, np.float32)
    call(dense.widen_half, halves, wide)
    np.testing.assert_array_equal(wide, halves.astype(np.float32))
    real = ~np.isnan(halves)
    np.testing.assert_array_equal(np.signbit(wide)[real], np.signbit(halves)[real])  # a GPU gives every NaN one sign
    back = narrowed(wide)
    np.testing.assert_array_equal(back.view(np.uint16)[real], halves.view(np.uint16)[real])
    assert np.isnan(back[~real]).all()


def test_narrowing_rounds_as_numpy(seed):
    random = np.random.RandomState(seed)
    halves = np.arange(31744, dtype=np.uint16).view(np.float16).astype(np.float32)
    ties = (halves[1:] + halves[:-1]) / 2  # exactly between two neighbours
    near = np.concatenate([ties, np.nextafter(ties, np.float32(0)), np.nextafter(ties, np.float32(1e9))])
    any_bits = random.randint(0, 2 ** 32, size(200000), dtype=np.uint64).astype(np.uint32).view(np.float32)
    edges = np.array([65504, 65519.996, 65520, 1e30, np.inf, 2 ** -24, 2 ** -25, 2 ** -26, 0, 1e-45], np.float32)
    values = np.concatenate([near, any_bits[~np.isnan(any_bits)], edges])
    values = np.concatenate([values, -values]).astype(np.float32)
    with np.errstate(over="ignore"):
        expected = values.astype(np.float16)
    np.testing.assert_array_equal(narrowed(values).view(np.uint16), expected.view(np.uint16))


@pytest.mark.parametrize("n", [0, 1, 7, 100003])
def test_copy_and_divide(n, seed):
    random = np.random.RandomState(seed)
    for dtype in ("float32", "float64"):
        values = random.normal(size=n + 1).astype(dtype)

        def run():
            copied = np.zeros(n + 1, dtype)
            call(dense.copy, values[:n], copied[:n])
            divided = copied.copy()
            call(dense.divide, divided[:n], 3)
            return copied, divided

        copied, divided = same_bits(run)
        np.testing.assert_array_equal(copied[:n], values[:n])
        np.testing.assert_array_equal(divided[:n], values[:n] / np.dtype(dtype).type(3))
        assert copied[n] == divided[n] == 0

"""A stream beside a GPU's own: it comes after what it follows, and what it leads comes after it."""
import numpy as np
import pytest

from sok1x.cuda_kernels import arrays, backend, fill, gpu
from sok1x.cuda_kernels.cache_rows import Moves, move

pytestmark = pytest.mark.gpu
ROWS, WORDS = 1 << 14, 256  # 16 MB, of which a copy takes longer than a launch


@pytest.fixture
def device():
    with gpu.get(0).active() as device:
        yield device


@pytest.mark.parametrize("profiled", [False, True])
def test_both_streams_come_in_turn_where_they_are_told_to(device, profiled):
    import pycuda.driver
    memory = [pycuda.driver.mem_alloc(4 * ROWS * WORDS) for _ in range(2)]
    source, target = (arrays.array(int(one), "float32", (ROWS, WORDS), device) for one in memory)
    numbers = [arrays.array(int(one), "int32", (ROWS * WORDS,), device) for one in memory]
    side = device.side()
    assert side is device.side()
    device.profile = [] if profiled else None
    try:
        with backend.use(device):
            for value in range(1, 20):
                fill.fill_int32(numbers[0], value)
                fill.fill_int32(numbers[1], -1)
                side.follow()
                with backend.use(side):
                    move(Moves(source, target))
                side.lead()
                fill.fill_int32(numbers[0], -value)
                np.testing.assert_array_equal(numbers[1].read(), value)
        assert not profiled or any(what == "move_records" for what, _, _ in device.profile)
    finally:
        device.profile = None
        device.synchronize()
        for one in memory:
            one.free()

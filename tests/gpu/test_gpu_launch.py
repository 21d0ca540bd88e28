"""The way of a launch on a GPU: parameters of all kinds arrive, so many threads run as asked for, errors are raised."""
import ctypes
import struct

import numpy as np
import pytest

from sok1x.cuda_kernels import backend, gpu, gpu_compiler, gpu_launch
from sok1x.cuda_kernels.backend import DOUBLE, FLOAT, INT32, INT64, POINTER, UINT64
from sok1x.cuda_kernels.gpu_driver import DriverError

pytestmark = pytest.mark.gpu

ECHO = """
struct Values { int a; void* b; float c; double d; int e; long long f; int g; unsigned long long h; float i; };
extern "C" __global__ void sok1x_echo(int a, void* b, float c, double d, int e, long long f, int g,
                                      unsigned long long h, float i, Values* out, unsigned long long* threads) {
  atomicAdd(threads, 1ull);
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    Values values = {a, b, c, d, e, f, g, h, i};
    *out = values;
  }
}
"""
KINDS = [INT32, POINTER, FLOAT, DOUBLE, INT32, INT64, INT32, UINT64, FLOAT]
VALUES = [-7, 1 << 40, 1.5, -2.25e300, 2 ** 31 - 1, -2 ** 63, 3, 2 ** 64 - 1, 0.5]


class Values(ctypes.Structure):
    _fields_ = [("p{}".format(i), kind) for i, kind in enumerate(KINDS)]


def signature(threads=1, block=32, exact=False, name="echo"):
    return backend.Signature("echo", name, None, KINDS + [POINTER, POINTER], lambda a: threads, block, exact)


@pytest.fixture
def device():
    with gpu.get(0).active() as device:
        yield device


@pytest.fixture
def launcher(device, tmp_path, monkeypatch):
    (tmp_path / "echo.cu").write_text(ECHO)
    monkeypatch.setattr(gpu_compiler, "FOLDER", str(tmp_path))
    monkeypatch.setenv("SOK1X_CACHE_DIR", str(tmp_path / "cache"))
    return gpu_launch.Launcher({"echo": gpu_compiler.cubin("echo", device.architecture)}, device.stream, 64)


@pytest.fixture
def out(device):
    """Memory on the GPU for the values, and behind them for the count of threads."""
    import pycuda.driver
    memory = pycuda.driver.mem_alloc(512)
    device.clear(int(memory), 512)
    yield int(memory), int(memory) + 256
    device.synchronize()
    memory.free()


def read(device, out):
    values = np.empty(512, np.uint8)
    device.to_host(values.ctypes.data, out[0], 512)
    got = Values.from_buffer_copy(values.tobytes())
    return [getattr(got, name) for name, _ in Values._fields_], int(values[256:264].view(np.int64)[0])


@pytest.mark.parametrize("threads, block, exact, run", [
    (1, 32, False, 32), (33, 32, False, 64), (10 ** 6, 32, False, 64 * 32), (10 ** 6, 32, True, 10 ** 6)])
def test_parameters_of_all_kinds_arrive(device, launcher, out, threads, block, exact, run):
    launcher.launch(signature(block=block, exact=exact), threads, VALUES + list(out))
    assert read(device, out) == (VALUES, run)


def test_the_parameters_of_a_launch_are_its_own(device, launcher, out):
    """A launch that waits in the stream keeps what it was given while the next ones are packed."""
    import pycuda.driver
    plug = pycuda.driver.mem_alloc(1 << 28)
    last = signature()
    for _ in range(4):
        device.clear(int(plug), 1 << 28)
    for number in range(100):
        launcher.launch(last, 1, [number] + VALUES[1:] + list(out))
    assert read(device, out) == ([99] + VALUES[1:], 3200)
    plug.free()


def test_errors_are_raised_and_the_gpu_goes_on(device, launcher, out):
    with pytest.raises(DriverError, match="cuLaunchKernel of echo.* failed: invalid argument"):
        launcher.launch(signature(block=4096), 1, VALUES + list(out))
    with pytest.raises(DriverError, match="cuModuleGetFunction failed"):
        launcher.launch(signature(name="not_there"), 1, VALUES + list(out))
    with pytest.raises(struct.error):
        launcher.launch(signature(), 1, VALUES)
    launcher.launch(signature(), 1, VALUES + list(out))
    assert read(device, out) == (VALUES, 32)


def test_clear_and_copy_are_in_order(device, out):
    device.clear(out[0], 8, 1)
    device.copy(out[1], out[0], 8)
    assert read(device, out)[1] == 0x0101010101010101

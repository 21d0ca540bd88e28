"""The way of a launch, over a stand-in for CUDA's driver: parameters, blocks, errors, counts, the profile."""
import ctypes
import struct

import numpy as np
import pytest
import stand_in_cuda

from sok1x.cuda_kernels import backend
from sok1x.cuda_kernels.backend import DOUBLE, FLOAT, INT32, INT64, POINTER, UINT64, Signature
from sok1x.cuda_kernels.gpu_driver import DriverError

KINDS = [INT32, POINTER, FLOAT, DOUBLE, INT32, INT64, INT32, UINT64, FLOAT]


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return stand_in_cuda.build(tmp_path_factory.mktemp("cuda"))


@pytest.fixture
def device(library, monkeypatch):
    with stand_in_cuda.installed(library, monkeypatch) as device:
        yield device


def echo(*kinds, threads=lambda a: 1, block=256, exact=False):
    return Signature("echo", "echo", None, kinds, threads, block, exact)


def parameters(kinds, looks):
    """What the driver was given, as a C structure has it."""
    class Fields(ctypes.Structure):
        _fields_ = [("p{}".format(i), kind) for i, kind in enumerate(kinds)]

    last = getattr(Fields, "p{}".format(len(kinds) - 1))
    assert looks.stand_in_size() == last.offset + last.size, "no padding at the end"
    got = Fields.from_buffer_copy(ctypes.string_at(looks.stand_in_parameters(), ctypes.sizeof(Fields)))
    return [getattr(got, name) for name, _ in Fields._fields_]


def test_parameters_of_all_kinds_arrive(device):
    gpu, looks = device
    values = [-7, 1 << 40, 1.5, -2.25e300, 2 ** 31 - 1, -2 ** 63, 3, 2 ** 64 - 1, 0.5]
    gpu.launch(echo(*KINDS), tuple(values))
    assert parameters(KINDS, looks) == values
    assert looks.stand_in_kernel() == b"echo sok1x_echo" and looks.stand_in_stream() == stand_in_cuda.STREAM


def test_a_stream_beside_the_gpus_own_has_launches_of_its_own_and_the_same_modules(device):
    gpu, looks = device
    side = gpu.side()
    assert side is gpu.side() and side._launcher._modules is gpu._launcher._modules
    side.follow()
    for profile, own in ((None, False), ([], True), (None, False)):
        gpu.profile = profile
        side.launch(echo(INT32), (7,))
        assert (looks.stand_in_stream() == stand_in_cuda.STREAM) is own
    side.lead()
    gpu.launch(echo(INT32), (7,))
    assert looks.stand_in_stream() == stand_in_cuda.STREAM


def test_parameters_in_any_order_arrive(device, seed):
    gpu, looks = device
    random = np.random.RandomState(seed)
    values = {INT32: -5, POINTER: 1 << 47, FLOAT: 0.25, DOUBLE: 1e-300, INT64: 2 ** 62, UINT64: 2 ** 63}
    for _ in range(50):
        kinds = [list(values)[i] for i in random.randint(0, len(values), random.randint(1, 20))]
        gpu.launch(echo(*kinds), tuple(values[kind] for kind in kinds))
        assert parameters(kinds, looks) == [values[kind] for kind in kinds]


def test_numbers_of_numpy_arrive(device):
    gpu, looks = device
    kinds = [POINTER, INT32, INT64, FLOAT, DOUBLE]
    gpu.launch(echo(*kinds, threads=lambda a: a[2]),
               (np.int64(99), np.int32(-1), np.int64(1000), np.float32(0.1), np.float64(0.1)))
    assert parameters(kinds, looks) == [99, -1, 1000, float(np.float32(0.1)), 0.1]
    assert looks.stand_in_blocks() == 4


@pytest.mark.parametrize("threads, block, exact, blocks", [
    (1, 256, False, 1), (256, 256, False, 1), (257, 256, False, 2), (64 * 32, 32, False, 64), (10 ** 9, 256, False, 64),
    (10 ** 9, 256, True, 3906250), (2 ** 31 - 1, 1, True, 2 ** 31 - 1)])
def test_blocks(device, threads, block, exact, blocks):
    gpu, looks = device
    gpu.launch(echo(INT64, threads=lambda a: a[0], block=block, exact=exact), (threads,))
    assert (looks.stand_in_blocks(), looks.stand_in_block()) == (blocks, block)


@pytest.mark.parametrize("threads", [0, -1])
def test_nothing_is_launched_for_nothing(device, threads):
    gpu, looks = device
    before = looks.stand_in_calls()
    gpu.launch(echo(INT64, threads=lambda a: a[0]), (threads,))
    assert looks.stand_in_calls() == before


def test_a_kernel_is_loaded_once(device):
    gpu, looks = device
    signature, calls = echo(INT32), []
    for _ in range(3):
        before = looks.stand_in_calls()
        gpu.launch(signature, (1,))
        calls.append(looks.stand_in_calls() - before)
    assert calls == [3, 1, 1]  # its module, its function, the launch


@pytest.mark.parametrize("code, words", [(1, "invalid argument"), (700, "CUDA's error 700")])
def test_errors_are_raised_and_pass(device, code, words):
    gpu, looks = device
    signature, memory = echo(INT32), np.zeros(4, np.uint8)
    gpu.launch(signature, (1,))
    for what, call in (("cuLaunchKernel of echo", lambda: gpu.launch(signature, (1,))),
                       ("clear", lambda: gpu.clear(memory.ctypes.data, 4)),
                       ("fill", lambda: gpu.fill(memory.ctypes.data, 1, 7)),
                       ("copy", lambda: gpu.copy(memory.ctypes.data, memory.ctypes.data, 4)),
                       ("copy to the host", lambda: gpu.to_host(memory.ctypes.data, memory.ctypes.data, 4)),
                       ("copy to the device", lambda: gpu.to_device(memory.ctypes.data, memory.ctypes.data, 4)),
                       ("cuStreamSynchronize", gpu.synchronize)):
        looks.stand_in_fail(code)
        with pytest.raises(DriverError, match="^{}.* failed: .*{}".format(what, words)):
            call()
        call()


def test_too_many_blocks_are_an_error_of_the_driver_s_kind(device):
    with pytest.raises(DriverError, match="invalid argument"):
        device[0].launch(echo(INT64, threads=lambda a: a[0], block=1, exact=True), (2 ** 31,))


@pytest.mark.parametrize("arguments", [(), (1,), (1, 2, 3), (1, 2 ** 31), (1, None), (1, 1.5)])
def test_arguments_that_do_not_fit_are_refused(device, arguments):
    with pytest.raises(struct.error):
        device[0].launch(echo(INT64, INT32), arguments)


def test_a_kernel_without_a_gpu_form_is_refused(device):
    with pytest.raises(NotImplementedError, match="echo has no GPU form"):
        device[0].launch(echo(INT32, threads=None), (1,))


def test_memory_is_cleared_and_copied(device):
    gpu, _ = device
    here, there = np.arange(100, dtype=np.uint8), np.zeros(100, np.uint8)
    gpu.copy(there.ctypes.data, np.int64(here.ctypes.data), np.int64(50))
    gpu.clear(there.ctypes.data, 10, 9)
    gpu.fill(there.ctypes.data + 52, np.int64(2), 0xfffefdfc)
    words = [0xfc, 0xfd, 0xfe, 0xff] * 2
    np.testing.assert_array_equal(there, [9] * 10 + list(range(10, 50)) + [0] * 2 + words + [0] * 40)
    gpu.to_host(there.ctypes.data, here.ctypes.data, 60)
    gpu.to_device(there.ctypes.data + 60, here.ctypes.data, 40)
    np.testing.assert_array_equal(there, list(range(60)) + list(range(40)))
    for move in (gpu.copy, gpu.to_host, gpu.to_device):
        move(0, 0, 0)
    gpu.clear(0, 0)
    gpu.fill(0, 0, 1)


def test_counts(device):
    gpu, looks = device
    counters = looks.stand_in_counts()
    with backend.use(gpu):
        found = backend.counts()
        for asked in (False, True):
            places = [found.take(), found.take()]
            begin = ctypes.addressof(counters.contents)
            assert [place.pointer for place in places] == [begin, begin + 8]
            counters[0], counters[1] = 5, -6
            if asked:
                found.ask()
            assert found.read() == [5, -6]
            assert found.read() == []
        found.take()
        counters[0] = 1
        found.forget()
        assert counters[0] == 0 and found.read() == []


def test_a_profile_has_what_was_enqueued(device):
    gpu, _ = device
    memory = np.zeros(8, np.uint8)
    gpu.profile = []
    gpu.launch(echo(INT32), (1,))
    gpu.clear(memory.ctypes.data, 8)
    gpu.copy(memory.ctypes.data, memory.ctypes.data, 8)
    with gpu.timed("more"):
        pass
    assert [name for name, _, _ in gpu.profile] == ["echo", "clear", "copy", "more"]
    assert all(event.recorded == [stand_in_cuda.STREAM] for _, *events in gpu.profile for event in events)

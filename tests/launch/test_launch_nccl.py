"""NCCL's binding and its communicator within one process, with the stand-in for NCCL."""
import ctypes
import shutil
import sys
import threading
import time

import numpy as np
import pytest
from stand_in_gpu import StandInGpu

from sok1x.launch import nccl_communicator, nccl_library
from sok1x.launch.communicator import Communicator
from sok1x.launch.errors import FAILED_PRECONDITION, INTERNAL, LaunchError
from sok1x.launch.gpu_communicator import GpuCommunicator
from sok1x.launch.local_communicator import LocalCommunicator
from sok1x.launch.nccl_communicator import NcclCommunicator
from sok1x.launch.nccl_library import NcclLibrary

EVERYTHING_CALLED = ["ncclAllGather", "ncclAllReduce", "ncclBroadcast", "ncclRecv", "ncclReduceScatter", "ncclSend"]


@pytest.fixture(autouse=True)
def no_trouble(monkeypatch):
    for name in ("FAIL", "HANG", "ASYNC", "DEAF", "DEAD", "VERSION"):
        monkeypatch.setenv("STAND_IN_NCCL_" + name, "")
    monkeypatch.delenv("STAND_IN_NCCL_VERSION")


@pytest.fixture
def alone(stand_in_library):
    """A communicator of one rank."""
    library = NcclLibrary(stand_in_library)
    return NcclCommunicator(library, library.init_rank(1, library.unique_id(), 0),
                            StandInGpu(stand_in_library, "GPU 0"), LocalCommunicator())


def sum_of(communicator, array):
    pointer = array.ctypes.data
    communicator.all_reduce(pointer, array.size, array.dtype.name)


@pytest.mark.parametrize("number, text", [(2708, "2.7.8"), (2804, "2.8.4"), (20908, "2.9.8"), (22005, "2.20.5"),
                                          (23004, "2.30.4")])
def test_versions(number, text, monkeypatch, stand_in_library):
    assert nccl_library.version_text(number) == text
    monkeypatch.setenv("STAND_IN_NCCL_VERSION", str(number))
    assert NcclLibrary(stand_in_library).version == text


def test_libraries_that_are_not_nccl(monkeypatch, tmp_path):
    for path, reason in ((str(tmp_path / "none.so"), "none.so"), ("libm.so.6", "it has no nccl")):
        monkeypatch.setenv("SOK1X_NCCL_LIBRARY", path)
        with pytest.raises(LaunchError, match="NCCL does not load.*{}.*pip install nvidia-nccl-cu12".format(
                reason)) as caught:
            nccl_library.load()
        assert caught.value.code == FAILED_PRECONDITION


def test_the_wheels_library_is_found(monkeypatch, tmp_path, stand_in_library):
    folder = tmp_path / "site-packages" / "nvidia" / "nccl" / "lib"
    folder.mkdir(parents=True)
    shutil.copy(stand_in_library, str(folder / "libnccl.so.2"))
    monkeypatch.setattr(sys, "path", [str(tmp_path), str(tmp_path / "site-packages")])
    assert nccl_library._in_wheels() == [str(folder / "libnccl.so.2")]
    assert nccl_library._first(["libnothing.so.2"] + nccl_library._in_wheels()).version == "2.20.5"


def test_the_library_is_loaded_once(monkeypatch, stand_in_library):
    monkeypatch.setenv("SOK1X_NCCL_LIBRARY", stand_in_library)
    assert nccl_library.load() is nccl_library.load()


@pytest.mark.parametrize("name", EVERYTHING_CALLED + ["ncclGroupStart", "ncclGroupEnd"])
def test_every_calls_result_is_checked(name, alone, monkeypatch):
    one, other, counts = np.full(4, 5.0, np.float32), np.zeros(4, np.float32), np.array([4])

    def everything():
        alone.all_to_all(one.ctypes.data, counts, other.ctypes.data, counts, 4)
        alone.reduce_scatter(one.ctypes.data, other.ctypes.data, counts, 1)
        alone.all_gather(one.ctypes.data, other.ctypes.data, counts, 4)
        alone.all_reduce(one.ctypes.data, 4, "float32")
        alone.broadcast(one.ctypes.data, 4, 0)

    alone.op = "some/op"
    monkeypatch.setenv("STAND_IN_NCCL_FAIL", name)
    with pytest.raises(LaunchError) as caught:
        everything()
    assert caught.value.code == INTERNAL and caught.value.rank == 0
    assert caught.value.message.endswith(
        " of op 'some/op' failed on rank 0: {0} failed: unhandled system error (the stand-in was told to fail {0})"
        .format(name)), caught.value
    # A group that was begun has been closed: exchanges work again.
    monkeypatch.setenv("STAND_IN_NCCL_FAIL", "")
    everything()
    alone._gpu.synchronize()
    assert (other == 5).all()
    alone.close()


@pytest.mark.parametrize("name, call", [
    ("ncclGetUniqueId", lambda library, comm: library.unique_id()),
    ("ncclCommInitRank", lambda library, comm: library.init_rank(1, library.unique_id(), 0)),
    ("ncclCommGetAsyncError", lambda library, comm: library.async_error(comm)),
    ("ncclCommAbort", lambda library, comm: library.abort(comm)),
    ("ncclCommDestroy", lambda library, comm: library.destroy(comm))])
def test_every_other_calls_result_is_checked(name, call, stand_in_library, monkeypatch):
    library = NcclLibrary(stand_in_library)
    comm = library.init_rank(1, library.unique_id(), 0)
    assert library.async_error(comm) is None
    monkeypatch.setenv("STAND_IN_NCCL_FAIL", name)
    with pytest.raises(LaunchError, match="^{} failed: unhandled system error .the stand-in".format(name)):
        call(library, comm)


def test_without_a_last_error_the_word_is_told(stand_in_library, monkeypatch):
    library = NcclLibrary(stand_in_library)
    library._last_error = None
    monkeypatch.setenv("STAND_IN_NCCL_FAIL", "ncclGetUniqueId")
    with pytest.raises(LaunchError, match="^ncclGetUniqueId failed: unhandled system error$"):
        library.unique_id()


def test_busy_while_the_gpu_has_not_come_by(alone):
    assert alone.busy is None
    array = np.arange(3.0)
    alone.op = "first"
    assert alone._host.op == "first"
    begin = time.monotonic()
    alone._gpu.sleep(2000)
    sum_of(alone, array)
    assert time.monotonic() - begin < 1.9, "the exchange was waited for"
    busy = alone.busy
    assert busy[:2] == ("all_reduce", "first") and begin <= busy[2] <= time.monotonic()
    alone.op = "second"
    alone.exchange_counts(np.array([1]))
    alone._gpu.sleep(2000)
    alone.broadcast(array.ctypes.data, 8, 0)
    assert alone.busy is busy, "the oldest is told, and as the same object"
    while alone.busy is busy:
        time.sleep(0.01)
    assert alone.busy[:2] == ("broadcast", "second")
    alone._gpu.synchronize()
    assert alone.busy is None
    alone.close()


def test_an_aborted_communicator_refuses_with_the_jobs_error(alone, monkeypatch):
    array, failure = np.arange(3.0), LaunchError(INTERNAL, "rank 1 failed", 1)
    monkeypatch.setenv("STAND_IN_NCCL_DEAF", "1")
    sum_of(alone, array)
    time.sleep(0.05)
    assert alone.busy is not None and alone.trouble() is None
    alone.abort(failure)
    alone.abort(LaunchError(INTERNAL, "another"))
    alone._gpu.synchronize()
    assert alone.busy is None and alone.failure is failure and alone.trouble() is None
    with pytest.raises(LaunchError, match="^rank 1 failed$"):
        sum_of(alone, array)
    alone.close()


def test_an_asynchronous_error_is_told_with_its_op(alone, monkeypatch):
    monkeypatch.setenv("STAND_IN_NCCL_ASYNC", "1")
    alone.op = "some/op"
    sum_of(alone, np.arange(3.0))
    until = time.monotonic() + 60
    while alone.trouble() is None and time.monotonic() < until:  # the stream's thread has it
        time.sleep(0.01)
    assert alone.trouble() == ("NCCL reports an error in all_reduce of op 'some/op': remote process exited or there "
                               "was a network error")
    alone.abort(LaunchError(INTERNAL, "x"))


@pytest.mark.parametrize("ending", ["close", "abort"])
def test_nobody_waits_for_nccl_to_end_a_communicator(ending, alone, monkeypatch):
    """A call that hangs inside NCCL, in another thread, and ends that hang."""
    monkeypatch.setattr(nccl_communicator, "_CLOSE_SECONDS", 1)
    array = np.arange(3.0)
    monkeypatch.setenv("STAND_IN_NCCL_HANG", "ncclAllReduce")
    inside = threading.Thread(target=sum_of, args=(alone, array), daemon=True)
    inside.start()
    while alone.busy is None:
        time.sleep(0.01)
    assert alone.busy[0] == "all_reduce", "also while the call itself waits"
    assert alone.trouble() is None
    begin = time.monotonic()
    if ending == "abort":
        alone.abort(LaunchError(INTERNAL, "x"))
        assert time.monotonic() - begin < 0.9, "it waited"
    alone.close()
    assert time.monotonic() - begin < 60
    monkeypatch.setenv("STAND_IN_NCCL_HANG", "ncclCommAbort" if ending == "abort" else "ncclCommDestroy")
    inside.join()
    begin = time.monotonic()
    alone.close()
    if ending == "abort":
        with pytest.raises(LaunchError, match="^x$"):
            sum_of(alone, array)
    assert time.monotonic() - begin < 60
    monkeypatch.setenv("STAND_IN_NCCL_HANG", "")


def test_a_failure_to_end_a_communicator_is_said(alone, monkeypatch, capfd):
    monkeypatch.setenv("STAND_IN_NCCL_FAIL", "ncclCommDestroy")
    alone.close()
    assert capfd.readouterr().err.startswith("sok1x: rank 0: ncclCommDestroy failed: unhandled system error")


def test_a_gpu_that_has_failed_does_not_break_the_watch(alone, monkeypatch):
    sum_of(alone, np.arange(3.0))

    def fails(mark):
        raise RuntimeError("an illegal memory access was encountered")

    monkeypatch.setattr(alone._gpu, "reached", fails)
    assert alone.busy is None
    monkeypatch.undo()
    alone.close()


def test_every_communicator_does_all_exchanges():
    kinds = [kind for kind in Communicator.__subclasses__() if kind is not GpuCommunicator]
    for kind in kinds + GpuCommunicator.__subclasses__():
        assert not kind.__abstractmethods__, kind
    assert ctypes.sizeof(nccl_library._UniqueId) == nccl_library.UNIQUE_ID_BYTES


def test_an_exchange_of_nothing_makes_no_group(alone):
    """The stand-in refuses groups with nothing in them."""
    nothing = np.zeros(1, np.int64)
    alone.all_to_all(0, nothing, 0, nothing, 4)
    alone.all_reduce_each([(0, 0, 0), (0, 0, 0)], "float32")

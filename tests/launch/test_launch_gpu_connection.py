"""How it is chosen in which way the GPUs of a job exchange."""
import subprocess
import sys

import numpy as np
import pytest
from stand_in_gpu import StandInGpu

from sok1x.launch import gpu_connection, pauses
from sok1x.launch.errors import FAILED_PRECONDITION, INVALID_ARGUMENT, LaunchError


def record(setting="auto", gpu="a", nccl="2.20.5", **more):
    return dict({"setting": setting, "gpu": ["machine", gpu], "nccl": nccl}, **more)


def test_nccl_where_every_rank_has_it_and_a_gpu_of_its_own():
    assert gpu_connection.choose([record(gpu=str(rank)) for rank in range(3)]) == (True, None)
    # One name on two machines is two GPUs.
    assert gpu_connection.choose([record(), dict(record(), gpu=["another", "a"])]) == (True, None)


@pytest.mark.parametrize("records, obstacle", [
    ([record(gpu="a"), record(gpu="a")], "ranks 0 and 1 share a GPU"),
    ([record(gpu=name) for name in "abab"], "ranks 0 and 2 share a GPU, ranks 1 and 3 share a GPU"),
    ([record(gpu="a")] * 4, "ranks 0-3 share a GPU"),
    ([record(gpu="a"), record(gpu="b", nccl=None, missing="NCCL does not load (x)")],
     "on rank 1, NCCL does not load (x)"),
    ([record(gpu="a"), record(gpu="b"), record(gpu="c", nccl="2.18.1")],
     "the ranks have different versions of NCCL (ranks 0 and 1: 2.20.5; rank 2: 2.18.1)")])
def test_what_stands_against_nccl(records, obstacle):
    assert gpu_connection.choose(records) == (False, obstacle)
    with pytest.raises(LaunchError, match="SOK1X_COMMUNICATOR=nccl, but NCCL cannot be used: ") as caught:
        gpu_connection.choose([dict(one, setting="nccl") for one in records])
    assert caught.value.code == FAILED_PRECONDITION and caught.value.message.endswith(obstacle)
    assert gpu_connection.choose([dict(one, setting="mpi") for one in records]) == (False, None)


def test_settings_that_differ_between_ranks():
    with pytest.raises(LaunchError, match='SOK1X_COMMUNICATOR: rank 0 gave "mpi"; ranks 1, 2 gave "auto"') as caught:
        gpu_connection.choose([record("mpi"), record(gpu="b"), record(gpu="c")])
    assert caught.value.code == INVALID_ARGUMENT and caught.value.rank == 1
    with pytest.raises(LaunchError, match="no such") as caught:
        gpu_connection.choose([record(), {"error": [INVALID_ARGUMENT, "no such"]}])
    assert caught.value.code == INVALID_ARGUMENT and caught.value.rank == 1


def test_connecting_twice_or_alone(stand_in_library):
    class Alone:
        size, cpus, gpu_communicator, description = 1, 16, None, {}

    world, gpu = Alone(), StandInGpu(stand_in_library, "GPU 0")
    gpu_connection.connect_gpu(world, gpu)
    made = world.gpu_communicator
    assert world.description == {"GPU communicator": "local"}
    assert world.spin_microseconds == pauses.spin_beside_gpu(16)
    source, target = np.arange(5), np.zeros(5, np.int64)
    made.all_to_all(source.ctypes.data, np.array([5]), target.ctypes.data, np.array([5]), 8)
    gpu.synchronize()
    assert (source == target).all()
    gpu_connection.connect_gpu(world, gpu)
    assert world.gpu_communicator is made


def test_no_gpu_is_needed_to_import():
    program = ("import sys, sok1x.launch; assert not [m for m in sys.modules if m.startswith('pycuda')]; "
               "assert 'nccl' not in open('/proc/self/maps').read()")
    done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")

"""The ways to exchange, on host memory and on GPUs, and the stand-in for NCCL.

SOK1X_TEST_DEVICE=gpu takes this machine's GPUs and NCCL where otherwise stand-ins are used.
"""
import atexit
import functools
import os
import shutil
import subprocess
import sys
import tempfile
import threading

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
GPU = os.environ.get("SOK1X_TEST_DEVICE") == "gpu"
_building = threading.Lock()


@functools.lru_cache(maxsize=None)
def _built():
    folder = tempfile.mkdtemp(prefix="sok1x_stand_in_")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = os.path.join(folder, "libstand_in_nccl.so")
    subprocess.check_call([os.environ.get("CXX", "g++"), "-std=c++11", "-O1", "-Wall", "-Wextra", "-Werror", "-shared",
                           "-fPIC", "-pthread", os.path.join(HERE, "stand_in_nccl.cc"), "-o", path])
    return path


def stand_in_library():
    """The built stand-in for NCCL, with its streams: a path."""
    with _building:  # jobs ask for it in threads
        return _built()


def stand_in(**more):
    """The environment of ranks that have stand-in GPUs, and the stand-in for NCCL."""
    library = stand_in_library()
    return dict({"SOK1X_TEST_DEVICE": "stand-in", "STAND_IN_GPU_LIBRARY": library, "SOK1X_NCCL_LIBRARY": library},
                **more)


@functools.lru_cache(maxsize=None)
def gpus():
    """Number of GPUs of this machine that the tests may use."""
    program = "from sok1x.cuda_kernels import gpu; print(gpu.count())"
    return int(subprocess.check_output([sys.executable, "-c", program]))


class Way:
    """How ranks exchange: `name` is host, nccl or staged."""

    def __init__(self, name):
        self.name = name

    def env(self, ranks, **more):
        """The environment of the ranks; skips the test where there are too few GPUs."""
        if self.name == "host":
            return dict(more, SOK1X_TEST_DEVICE="host")
        more.setdefault("SOK1X_COMMUNICATOR", "nccl" if self.name == "nccl" else "mpi")
        if not GPU:
            return stand_in(**more)
        if gpus() < (ranks if self.name == "nccl" else 1):
            pytest.skip("needs {} GPUs, has {}".format(ranks, gpus()))
        return dict(more, SOK1X_TEST_DEVICE="gpu")


WAYS = HOST, NCCL, STAGED = Way("host"), Way("nccl"), Way("staged")

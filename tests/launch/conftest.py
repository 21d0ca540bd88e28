"""What launch tests share: the ways to exchange, on host memory and on GPUs, and the stand-in for NCCL.

SOK1X_TEST_DEVICE=gpu takes this machine's GPUs and NCCL where otherwise stand-ins are used.
"""
import os
import subprocess
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
GPU = os.environ.get("SOK1X_TEST_DEVICE") == "gpu"


@pytest.fixture(autouse=True)
def host_memory(monkeypatch):
    """Programs exchange host memory unless a test says otherwise."""
    monkeypatch.setenv("SOK1X_TEST_DEVICE", "host")


@pytest.fixture(scope="session")
def stand_in_library(tmp_path_factory):
    """The built stand-in for NCCL, with its streams: a path."""
    path = str(tmp_path_factory.mktemp("stand_in") / "libstand_in_nccl.so")
    subprocess.check_call([os.environ.get("CXX", "g++"), "-std=c++11", "-O1", "-Wall", "-Wextra", "-Werror", "-shared",
                           "-fPIC", "-pthread", os.path.join(HERE, "stand_in_nccl.cc"), "-o", path])
    return path


@pytest.fixture(scope="session")
def gpus():
    """Number of GPUs of this machine that the tests may use."""
    if not GPU:
        return 0
    program = "from sok1x.cuda_kernels import gpu; print(gpu.count())"
    return int(subprocess.check_output([sys.executable, "-c", program]))


def stand_in_environment(library):
    """The environment of ranks that have stand-in GPUs, and the stand-in for NCCL."""
    return {"SOK1X_TEST_DEVICE": "stand-in", "STAND_IN_GPU_LIBRARY": library, "SOK1X_NCCL_LIBRARY": library}


@pytest.fixture
def stand_in(stand_in_library):
    return stand_in_environment(stand_in_library)


class Way:
    """How ranks exchange: `name` is host, nccl or staged."""

    def __init__(self, name, request):
        self.name, self._request = name, request

    def env(self, ranks, **more):
        """The environment of the ranks; skips the test where there are too few GPUs."""
        if self.name == "host":
            return dict(more, SOK1X_TEST_DEVICE="host")
        more["SOK1X_COMMUNICATOR"] = "nccl" if self.name == "nccl" else "mpi"
        if not GPU:
            return dict(more, **stand_in_environment(self._request.getfixturevalue("stand_in_library")))
        gpus = self._request.getfixturevalue("gpus")
        if gpus < (ranks if self.name == "nccl" else 1):
            pytest.skip("needs {} GPUs, has {}".format(ranks, gpus))
        return dict(more, SOK1X_TEST_DEVICE="gpu")


@pytest.fixture(params=["host", "nccl", "staged"])
def way(request):
    return Way(request.param, request)


@pytest.fixture
def nccl(request):
    return Way("nccl", request)

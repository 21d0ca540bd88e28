"""What every test shares: folders of helpers on the path, quiet TensorFlow, a printed seed, devices to run on."""
import functools
import os
import runpy
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "cuda_kernels"), os.path.join(HERE, "dump_load")]
import at_once  # noqa: E402
import tensorflow2_skips  # noqa: E402

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", tensorflow2_skips.LOG_LEVEL)

# TensorFlow would take nearly all of a GPU's memory at its first session, or at its first look at the GPU.
os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
# TensorFlow imports distutils, for which setuptools would load itself, a tenth of the time that each of the hundreds of
# processes takes to start. tests/setup, which builds and installs, does without this. Python 3.12 has no distutils.
if sys.version_info < (3, 12):
    os.environ.setdefault("SETUPTOOLS_USE_DISTUTILS", "stdlib")
# No test compiles for XLA, and yet a session's every first step looks for what it could compile, a third of its cost:
# unless no op may be marked for it any more.
os.environ.setdefault("TF_XLA_FLAGS", "--tf_xla_clustering_fuel=0")
# Each process that tests start would compile sok1x's modules anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# Garbage is collected less often, here and in all processes that tests start: start/sitecustomize.py says why.
START = os.path.join(HERE, "start")
runpy.run_path(os.path.join(START, "sitecustomize.py"))
sys.path.insert(1, START)
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [START, os.environ.get("PYTHONPATH")]))

# Which devices the tests that have a `device` run on; 'gpu' alone makes it an error that there is no GPU.
ASKED = os.environ.get("SOK1X_TEST_DEVICE", "") or "both"
DEVICES = ["host", pytest.param("gpu", marks=pytest.mark.gpu)]


def pytest_configure(config):
    config.addinivalue_line("markers", "gpu: needs a GPU; skipped where PyCUDA finds none")
    if ASKED not in ("host", "gpu", "both"):
        raise pytest.UsageError("SOK1X_TEST_DEVICE is host, gpu or both, got {!r}.".format(ASKED))


@pytest.fixture
def seed():
    """A random seed, printed so that a failing run can be repeated with SOK1X_TEST_SEED."""
    value = at_once.new_seed()
    print("SOK1X_TEST_SEED={}".format(value))
    return value


@pytest.fixture
def ended(request, tmp_path_factory):
    """A function that gives the outcome of the test's job, as at_once.py has it."""
    return functools.partial(at_once.outcome, request.node, tmp_path_factory)


@functools.lru_cache(maxsize=None)
def gpus():
    """The number of GPUs that kernels can run on; TensorFlow is not asked."""
    from sok1x.cuda_kernels import gpu
    return gpu.count()


def pytest_collection_modifyitems(items):
    for item in items:
        reason = tensorflow2_skips.reason(item.nodeid)
        if reason:
            item.add_marker(pytest.mark.skip(reason=reason))


def pytest_runtest_setup(item):
    # Here and not in the fixture, so that the summary has one line for all of them.
    if item.get_closest_marker("gpu"):
        if ASKED == "host":
            pytest.skip("SOK1X_TEST_DEVICE=host")
        if not gpus():
            (pytest.fail if ASKED == "gpu" else pytest.skip)("PyCUDA finds no GPU")


@pytest.fixture(params={"host": DEVICES[:1], "gpu": DEVICES[1:]}.get(ASKED, DEVICES))
def device(request):
    """'host' and 'gpu' in turn: a test with this fixture runs on both. Folders add what the device needs there."""
    if request.param == "host" and ASKED == "gpu":
        pytest.skip("SOK1X_TEST_DEVICE=gpu")
    return request.param

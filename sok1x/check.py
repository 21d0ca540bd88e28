"""`python -m sok1x.check`, alone or under mpiexec: a look at this installation, and one exchange with known values.

Rank 0 prints what it finds, a line for each check; the other ranks print only what fails on them. For everything
that fails there is a line on what to do, and the exit code is 1.
"""
import importlib
import os
import sys
import time
import traceback
import warnings
from typing import Any, Callable, Dict, List, Optional, Tuple

from sok1x import check_needs, gpu_checks
from sok1x.check_outcomes import Failure, Note

OK, NOTE, FAILED = "ok", "-", "FAILED"
STEPS = 3


class Report:
    """Runs checks and prints their outcome as rank `rank` should."""

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.failed: List[str] = []

    def run(self, title: str, check: Callable[[], str]) -> None:
        """Runs one check, which returns what it found, or raises Note, Failure, or anything unexpected."""
        try:
            outcome, text, remedy = OK, check(), ""
        except Note as note:
            outcome, text, remedy = NOTE, str(note), ""
        except Failure as failure:
            outcome, text, remedy = FAILED, str(failure), failure.remedy
        except Exception as error:
            outcome, text = FAILED, "{}: {}".format(type(error).__name__, error)
            remedy = "this is not a failure that is expected; where it came from:\n" + traceback.format_exc()
        self._print(outcome, title, text, remedy)

    def skip(self, title: str) -> None:
        """Says that a check was left out because of one that failed."""
        self._print(NOTE, title, "left out: see what failed above", "")

    def _print(self, outcome: str, title: str, text: str, remedy: str) -> None:
        if outcome == FAILED:
            self.failed.append(title)
        elif self.rank != 0:
            return
        lines = ["{:>6}  {:<15} {}".format(outcome, title, text.replace("\n", "\n" + " " * 24))]
        if remedy:
            lines.append(" " * 8 + "what to do:     " + remedy.rstrip().replace("\n", "\n" + " " * 24))
        where = "" if self.rank == 0 else "rank {}: ".format(self.rank)
        # One write a check, so that ranks do not cut into each other's lines.
        sys.stdout.write("".join(where + line + "\n" for line in lines))
        sys.stdout.flush()


def _python() -> str:
    if sys.version_info < (3, 7):
        raise Failure("{} is too old".format(sys.version.split()[0]), "use Python 3.7 for TensorFlow 1.15, 3.9 to 3.11 "
                      "for 2.15: 'make env' looks for one")
    return "{}, {}".format(sys.version.split()[0], sys.executable)


def _numpy() -> str:
    return str(importlib.import_module("numpy").__version__)


def _compiler() -> str:
    try:
        return check_needs.compiler()
    except Failure as failure:  # what is compiled already needs none
        raise Note("none, which is needed to compile sok1x anew: {}".format(failure.remedy)) from None


def _horovod() -> str:
    install = ("HOROVOD_WITH_TENSORFLOW=1 HOROVOD_WITH_MPI=1 HOROVOD_WITHOUT_GLOO=1 pip install --no-build-isolation "
               "--no-cache-dir --force-reinstall --no-deps horovod=={} (it needs CMake 3: pip install 'cmake<4')")
    try:
        version = importlib.import_module("horovod").__version__
    except ImportError:
        raise Note("not installed: only scripts that use it need it; {}".format(
            "its last release, 0.28.1, is for TensorFlow up to 2.15" if sys.version_info >= (3, 12) else
            install.format("0.28.1"))) from None
    remedy = "build it again for this TensorFlow and this MPI: " + install.format(version)
    try:
        hvd = importlib.import_module("horovod.tensorflow")
    except Exception as error:
        raise Failure("{} does not import: {}".format(version, error), remedy) from None
    if not hvd.mpi_built():
        raise Failure("{} was built without MPI".format(version), remedy)
    return "{}, built with MPI".format(version)


def _devices() -> str:
    cpus = len(os.sched_getaffinity(0))
    return "{} CPU{} that this process may run on; GPUs: {}".format(cpus, "" if cpus == 1 else "s",
                                                                    gpu_checks.devices())


def _settings(variables: Dict[str, str]) -> str:
    found = ["{}={}".format(name, value) for name, value in sorted(variables.items()) if name.startswith("SOK1X_")]
    if not found:
        raise Note("no SOK1X_ variable is set: defaults")
    return "\n".join(found)


def _host_kernels() -> str:
    from sok1x.cuda_kernels import host
    try:
        host.get_threads()
    except (ImportError, OSError, AttributeError) as error:
        raise Failure(str(error), "'make build' in a source checkout, 'python -m sok1x.build --force' or sok1x "
                      "installed again with pip elsewhere") from None
    return "host build, {}".format(host.LIBRARY)


def _op_library() -> str:
    from sok1x.graph_ops.bridge import bridge, library
    try:
        library.load()
    except (ImportError, OSError) as error:
        raise Failure(str(error), "'make build' in a source checkout, 'python -m sok1x.build --force' or sok1x "
                      "installed again with pip (--no-build-isolation) elsewhere, so that it is built against this "
                      "TensorFlow") from None
    return str(bridge.PATH)


def _without_details(error: Exception) -> str:
    """A TensorFlow error's message without the list of places in the graph."""
    from sok1x.graph_ops.bridge import tensorflow_versions
    return tensorflow_versions.own_words(error).split("\n\nOriginal stack trace")[0].split("\n\t [[")[0]


def _quiet_session(tf: Any) -> Any:
    return tf.compat.v1.Session(config=tf.compat.v1.ConfigProto(device_count={"GPU": 0}))


def _init() -> str:
    import tensorflow as tf

    import sok1x as sok
    from sok1x import launch
    with tf.Graph().as_default(), _quiet_session(tf) as session:
        try:
            session.run(sok.Init(global_batch_size=1))
        except (tf.errors.OpError, ImportError) as error:
            raise Failure(_without_details(error), "mend what the message names; to try without MPI, start this "
                          "without mpiexec") from None
    world = launch.current()
    facts = ["{}: {}".format(name, value) for name, value in world.description.items()]
    return "\n".join(["rank {} of {} (rank {} of {} on this host)".format(
        world.rank, world.size, world.local_rank, world.local_size)] + facts)


def _threads() -> str:
    from sok1x.cuda_kernels import host
    return "{} a rank for the host kernels".format(host.get_threads())


def _slopes(keys: Any, rank: int, ranks: int) -> Any:
    """A rank's gradients of the rows of int64 [K] keys: small whole numbers, whose sums float32 holds for 7,000 ranks.

    Rows of one owner, and gradients of neighbouring ranks, are different.
    """
    prime = 251 if ranks % 251 else 241  # keys of one owner are as many ranks apart
    return (keys % prime + 1) * (rank % 5 + 1)


def _exchange() -> str:
    """Lookups and gradients over all ranks, whose values are known beforehand."""
    import numpy as np
    import tensorflow as tf

    import sok1x as sok
    from sok1x import launch
    world = launch.current()
    # Every rank looks up the same 8 N keys, some negative, in an order of its own.
    keys = np.roll(np.arange(8 * world.size, dtype=np.int64) * 3 - 7, world.rank)
    with tf.Graph().as_default(), _quiet_session(tf) as session:
        layer = sok.All2AllDenseEmbedding(max_vocabulary_size_per_gpu=8 * world.size, embedding_vec_size=5, slot_num=1,
                                          nnz_per_slot=1, embedding_initializer="zeros", name="sok1x_check")
        rows = tf.reshape(layer(keys.reshape(-1, 1, 1), training=True), [-1, 5])
        loss = tf.reduce_sum(rows * _slopes(keys, world.rank, world.size).astype(np.float32)[:, np.newaxis])
        step = tf.compat.v1.train.GradientDescentOptimizer(1.0).minimize(loss)
        try:
            session.run(sok.Init(global_batch_size=1))
            session.run(tf.compat.v1.global_variables_initializer())
            started = time.time()
            for _ in range(STEPS):
                session.run(step)
            seconds = (time.time() - started) / STEPS
            got = session.run(rows)
        except tf.errors.OpError as error:
            raise Failure(_without_details(error), "mend what the message names") from None
    of_all = sum(_slopes(keys, rank, world.size) for rank in range(world.size))
    expected = np.repeat(-STEPS * of_all[:, np.newaxis], 5, axis=1).astype(np.float32)
    wrong = int(np.sum(np.any(got != expected, axis=1)))
    if wrong:
        first = int(np.flatnonzero(np.any(got != expected, axis=1))[0])
        raise Failure("{} of {} rows came back wrong: key {} got {}, expected {}".format(
            wrong, len(keys), keys[first], got[first].tolist(), expected[first].tolist()),
            "build sok1x and mpi4py again for this TensorFlow and this MPI ('make distclean env'), and report it if "
            "it stays")
    return "{} keys over {} rank{}, {} steps: every value right, {:.1f} ms a step".format(
        len(keys), world.size, "" if world.size == 1 else "s", STEPS, 1000 * seconds)


def _launcher() -> Tuple[Optional[Any], Optional[Failure]]:
    from sok1x.launch import LaunchError, launcher
    try:
        return launcher.detect(), None
    except LaunchError as error:
        return None, Failure(str(error), "start it in the way that the message names")


def main() -> int:
    """Runs every check and prints the outcome; stops short of joining the ranks when something it needs failed.

    Returns:
        The exit code: 0 when nothing failed on this rank, else 1.
    """
    warnings.simplefilter("ignore")
    variables = dict(os.environ)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    # This program ends, whatever the other ranks do.
    os.environ.setdefault("SOK1X_STALL_SECONDS", "10")
    os.environ.setdefault("SOK1X_ABORT_SECONDS", "60")
    import sok1x as sok
    from sok1x.launch import launcher as started_by
    found, trouble = _launcher()
    report = Report(found.rank if found else 0)
    ranks = started_by.started_ranks() if found else 1

    def launcher() -> str:
        if trouble is not None:
            raise trouble
        if found is None:
            raise Note("none: one rank")
        return "{}, {} ranks".format(found.name, found.size or "?")

    def own_version() -> str:
        return "{}, {}".format(sok.__version__, os.path.dirname(os.path.abspath(sok.__file__)))

    report.run("sok1x", own_version)
    report.run("Python", _python)
    report.run("NumPy", _numpy)
    report.run("TensorFlow", check_needs.tensorflow)
    report.run("C++ compiler", _compiler)
    report.run("mpi4py", lambda: check_needs.mpi(ranks))
    report.run("Horovod", _horovod)
    report.run("pycuda", gpu_checks.pycuda)
    report.run("settings", lambda: _settings(variables))
    report.run("launcher", launcher)
    if not report.failed:
        report.run("devices", _devices)
        report.run("GPU kernels", lambda: gpu_checks.kernels(started_by.local_rank()))
        report.run("NCCL", lambda: gpu_checks.nccl(ranks))
    report.run("host kernels", _host_kernels)
    if "TensorFlow" not in report.failed:
        report.run("op library", _op_library)
    for title, check in (("ranks", _init), ("threads", _threads), ("exchange", _exchange)):
        if report.failed:
            report.skip(title)
        else:
            report.run(title, check)
    if report.rank == 0 or report.failed:
        sys.stdout.write("{}{}\n".format("" if report.rank == 0 else "rank {}: ".format(report.rank), (
            "failed: " + ", ".join(report.failed) if report.failed else "all is well")))
        sys.stdout.flush()
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())

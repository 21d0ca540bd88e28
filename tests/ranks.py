"""Start a Python program on several MPI ranks in a child process, with a timeout of its own."""
import atexit
import functools
import glob
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

from tensorflow2_skips import LOG_LEVEL

HERE = os.path.dirname(os.path.abspath(__file__))
# On a GPU sums in no given order are asked for otherwise, and a group's come in another than a single op's.
EQUAL_BITS = {"SOK1X_DETERMINISTIC": "1"} if os.environ.get("SOK1X_TEST_DEVICE") == "gpu" else {}
_starting = threading.RLock()
_TURN_SECONDS = 1.0

# Lines that libraries other than ours write to stderr on a healthy run.
_HARMLESS = ("FutureWarning", "np_resource = np.dtype", "_np_q", "DeprecationWarning", "WARNING:tensorflow",
             "WARNING: Logging before flag parsing", "exchanges go through host memory (MPI)",
             "Compiled cluster using XLA!",
             # TensorFlow 2.21, which has GPUs in every wheel, where there is none
             "absl::InitializeLog()", "failed call to cuInit", "Could not find cuda drivers",
             "oneDNN custom operations are on", "oneDNN supports DT_HALF")


class Finished:
    """How a launch ended: exit code, and what it wrote."""

    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    def __str__(self):
        return "exit code {}\n--- stdout\n{}\n--- stderr\n{}".format(self.code, self.out[-8000:], self.err[-8000:])


def unexpected(err):
    """The lines of `err` that a healthy run does not write."""
    return [line for line in err.splitlines()
            if line.strip() and not any(mark in line for mark in _HARMLESS)]


@functools.lru_cache(maxsize=None)
def _patient_yield():
    """The library made of patient_yield.c, or "" where there is no compiler."""
    folder = tempfile.mkdtemp(prefix="sok1x_yield_")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    library = os.path.join(folder, "patient_yield.so")
    try:
        subprocess.check_call(["gcc", "-O2", "-shared", "-fPIC", os.path.join(HERE, "patient_yield.c"), "-o", library])
    except OSError:
        return ""
    return library


def environment(env=None):
    """What programs that tests start find in their environment."""
    values = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                  OMPI_MCA_mpi_yield_when_idle="1",  # other tests run beside this one
                  TF_CPP_MIN_LOG_LEVEL=LOG_LEVEL, PYTHONWARNINGS="ignore", PYTHONUNBUFFERED="1", PYTHONFAULTHANDLER="1")
    # Tests make graphs of their own, programs that they start build in the default graph.
    if values.get("SOK1X_TEST_BEHAVIOR") == "v2":
        values["SOK1X_TEST_BEHAVIOR"] = "graphs"
    with _starting:
        library = _patient_yield()
    values["LD_PRELOAD"] = " ".join([values.get("LD_PRELOAD", ""), library]).strip()
    values.update(env or {})
    return values


def _read_at_start(values):
    """What of an environment Python and TensorFlow's libraries have read by the end of the import."""
    read = ("CUDA_", "LD_", "MALLOC_", "OMP_", "OPENBLAS_", "PYTHON", "SOK1X_TEST_BEHAVIOR", "TF_")
    return {name: value for name, value in values.items() if name.startswith(read)}


@functools.lru_cache(maxsize=None)
def _fork_servers():
    """The folder of the sockets of two servers, which end with this process; and what they read of the environment.

    Ranks take turns: what depends on the order of a set, which differs from process to process as strings' hashes do,
    differs between neighbours.
    """
    folder = tempfile.mkdtemp(prefix="sok1x_test_")
    command = [sys.executable, os.path.join(HERE, "fork_server.py")]
    servers = [subprocess.Popen(command + [os.path.join(folder, number)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                env=environment(), start_new_session=True) for number in "01"]
    for server in servers:
        assert server.stdout.readline() == b"ready\n"
    return folder, _read_at_start(environment()), servers


def python(program, values, fresh=False):
    """The words that run `program`, a file's path or source text, in an environment; its arguments follow.

    Its process is one that has imported TensorFlow already (fork_server.py), unless the test asks for a `fresh` one, or
    what it starts with is not what the servers have started with, or it is to have a GPU (on_gpu.py).
    """
    program = [program] if os.path.exists(program) else ["-c", program]
    if values.get("SOK1X_TEST_DEVICE") == "gpu":
        return [sys.executable, os.path.join(HERE, "on_gpu.py")] + program
    with _starting:
        folder, read, _ = (None, None, None) if fresh else _fork_servers()
    if read != _read_at_start(values):
        return [sys.executable] + program
    return [sys.executable, "-E", "-s", "-S", os.path.join(HERE, "forked.py"), folder] + program


def _communicate(child, seconds):
    """As `child.communicate(timeout=seconds)`, but a time in which the whole machine stood still counts as one turn.

    Linux 6.18 was seen to let no other thread run for up to 95 s while many ranks wait in MPI by sched_yield.
    """
    while True:
        begun = time.monotonic()
        try:
            return child.communicate(timeout=_TURN_SECONDS)
        except subprocess.TimeoutExpired:
            seconds -= min(time.monotonic() - begun, 2 * _TURN_SECONDS)
            if seconds <= 0:
                raise


def _of_ranks(folder, name):
    """What all ranks have written to stdout or stderr, one rank after the other."""
    texts = []
    for path in sorted(glob.glob(os.path.join(folder, "*", "rank.*", name))):
        with open(path, errors="replace") as file:
            texts.append(file.read())
    return "".join(texts)


def run_ranks(ranks, program, *arguments, timeout=300, env=None, check=True, launcher=None, fresh=False):
    """Run `program` (a file's path, or source text) on `ranks` ranks; kill the whole group after `timeout` s.

    `ranks=0` starts it without a launcher. `check=True` asserts exit code 0 and clean stderr. `fresh` is as of
    `python`; a `launcher` of the test's own starts fresh processes.

    mpiexec keeps what ranks write apart: in one pipe a rank's words are cut in two by another's wherever a read ends.
    """
    fresh = fresh or launcher is not None
    command = list(launcher or (["mpiexec", "--oversubscribe", "-np", str(ranks)] if ranks else []))
    if "mpiexec" not in command:
        return _run(command, None, program, arguments, timeout, env, check, fresh)
    with tempfile.TemporaryDirectory(prefix="sok1x_ranks_") as folder:
        after = command.index("mpiexec") + 1
        command[after:after] = ["--output-filename", folder + ":nocopy"]
        return _run(command, folder, program, arguments, timeout, env, check, fresh)


def _run(launcher, folder, program, arguments, timeout, env, check, fresh):
    """`folder`: where the launcher puts what ranks write, if it does."""
    values = environment(env)
    command = launcher + python(program, values, fresh)
    command += [str(argument) for argument in arguments]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=values,
                             universal_newlines=True, start_new_session=True)
    try:
        out, err = _communicate(child, timeout)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGTERM)
        try:
            out, err = child.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            out, err = child.communicate()
        raise AssertionError("no end after {} s: {}".format(timeout, _finished(child, folder, out, err)))
    finished = _finished(child, folder, out, err)
    if check:
        assert finished.code == 0, str(finished)
        assert not unexpected(finished.err), str(finished)
    return finished


def _finished(child, folder, out, err):
    if folder is not None:
        out, err = _of_ranks(folder, "stdout") + out, _of_ranks(folder, "stderr") + err
    return Finished(child.returncode, out, err)

"""Start a Python program on several MPI ranks in a child process, with a timeout of its own."""
import os
import signal
import subprocess
import sys

# Lines that libraries other than ours write to stderr on a healthy run.
_HARMLESS = ("FutureWarning", "np_resource = np.dtype", "_np_q", "DeprecationWarning", "WARNING:tensorflow",
             "WARNING: Logging before flag parsing", "exchanges go through host memory (MPI)")


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


def run_ranks(ranks, program, *arguments, timeout=120, env=None, check=True, launcher=None):
    """Run `program` (a file's path, or source text) on `ranks` ranks; kill the whole group after `timeout` s.

    `ranks=0` starts it without a launcher. `check=True` asserts exit code 0 and clean stderr. With
    SOK1X_TEST_DEVICE=gpu each rank gets a GPU (on_gpu.py).
    """
    values = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                  OMPI_MCA_mpi_yield_when_idle="1",  # other tests run beside this one
                  TF_CPP_MIN_LOG_LEVEL="2", PYTHONWARNINGS="ignore", PYTHONUNBUFFERED="1", PYTHONFAULTHANDLER="1")
    values.update(env or {})
    python = [sys.executable] + ([program] if os.path.exists(program) else ["-c", program])
    if values.get("SOK1X_TEST_DEVICE") == "gpu":
        python.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "on_gpu.py"))
    command = list(launcher or (["mpiexec", "--oversubscribe", "-np", str(ranks)] if ranks else []))
    command += python + [str(argument) for argument in arguments]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=values,
                             universal_newlines=True, start_new_session=True)
    try:
        out, err = child.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGTERM)
        try:
            out, err = child.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            out, err = child.communicate()
        raise AssertionError("no end after {} s: {}".format(timeout, Finished(child.returncode, out, err)))
    finished = Finished(child.returncode, out, err)
    if check:
        assert finished.code == 0, str(finished)
        assert not unexpected(err), str(finished)
    return finished

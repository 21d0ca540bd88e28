"""A job that is told to end by a signal saves the same step on all ranks, ends with code 0, and goes on elsewhere."""
import os
import re
import signal
import subprocess
import sys

import pytest
from counted_model import leftovers
from ranks import environment, run_ranks

from sok1x.checkpoint.commands import verify
from sok1x.checkpoint.files import folders

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "program_sigterm.py")


def ended(ranks, folder, case, saved_by, out):
    """(first step, last step) of a job that has ended as it must; its last checkpoint is of that step, and whole."""
    lines = set(re.findall(r"^rank (\d+) did {} from (\d+) to (\d+)$".format(case), out, re.M))
    assert {rank for rank, _, _ in lines} == set(map(str, range(ranks))), out
    (first, last), = {(int(first), int(last)) for _, first, last in lines}
    found = folders.latest(str(folder))
    assert found.step == last and not list(verify.faults(found.folder)) and not leftovers(str(folder))
    return first, last


def run(ranks, folder, case, saved_by):
    return ended(ranks, folder, case, saved_by, run_ranks(ranks, PROGRAM, folder, case, saved_by).out)


# Signals before the first run, in a run, and while it saves; then on fewer ranks from there.
def test_twice_and_on_fewer_ranks(tmp_path):
    assert run(2, tmp_path, "twice", "hook") == (0, 1)
    assert run(1, tmp_path, "all", "hook") == (1, 3)


def test_while_a_step_waits(tmp_path):
    first, last = run(2, tmp_path, "waiting", "listener")
    assert first == 0 and 3 <= last <= 6


@pytest.mark.slow
@pytest.mark.parametrize("saved_by", ["hook", "listener", "estimator"])
@pytest.mark.parametrize("case, least, most", [("one", 3, 5), ("all", 2, 5), ("saving", 4, 8), ("first", 1, 3)])
def test_on_three_ranks(case, least, most, saved_by, tmp_path):
    first, last = run(3, tmp_path, case, saved_by)
    assert first == 0 and least <= last <= most
    assert run(2, tmp_path, "one", saved_by)[0] == last


@pytest.mark.slow
@pytest.mark.parametrize("saved_by", ["hook", "listener"])
def test_ranks_that_differ_are_refused(saved_by, tmp_path):
    finished = run_ranks(2, PROGRAM, tmp_path, "differ", saved_by, check=False)
    assert finished.code != 0
    assert "rank 0 listens to signals 15; rank 1 listens to none" in finished.err, str(finished)


@pytest.mark.slow
def test_mpiexec_passes_sigusr1_on(tmp_path):
    command = ["mpiexec", "--oversubscribe", "-np", "2", sys.executable, PROGRAM, str(tmp_path), "launcher", "hook"]
    job = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(),
                           universal_newlines=True, start_new_session=True)
    try:
        line = ""
        while "trained 5" not in line:
            line = job.stdout.readline()
            assert line, job.stderr.read()
        job.send_signal(signal.SIGUSR1)
        out, err = job.communicate(timeout=120)
    finally:
        if job.poll() is None:
            os.killpg(job.pid, signal.SIGKILL)
    assert job.returncode == 0, err
    first, last = ended(2, tmp_path, "launcher", "hook", out)
    assert first == 0 and last >= 5

"""The scripts of tools/ that others start: what they make of their arguments. setup_env.sh has tests of its own."""
import os
import subprocess

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def run(script, *arguments, **env):
    done = subprocess.run(["bash", os.path.join(ROOT, "tools", script)] + list(arguments), env=dict(os.environ, **env),
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, timeout=60)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("asked, venv", [
    ("tensorflow==1.15.5", ".venv"), ("tensorflow-gpu==1.15.0", ".venv"), ("nvidia-tensorflow", ".venv"),
    ("nvidia-tensorflow==1.15.5+nv22.1", ".venv"), ("tensorflow[and-cuda]~=2.15.1", ".venv-2.15"),
    ("tensorflow==2.21.0", ".venv-2.21")])
def test_a_tensorflow_s_environment(asked, venv):
    assert run("tensorflow_choice.sh", SOK1X_TENSORFLOW=asked)[:2] == (0, venv + "\n")


@pytest.mark.parametrize("asked, release", [("tensorflow==1.14.0", "1.14"), ("tensorflow==2.16.1", "2.16"),
                                            ("tensorflow==1.1.5", "1.1"), ("tensorflow", "no")])
def test_a_tensorflow_that_there_is_no_environment_for(asked, release):
    code, out, error = run("tensorflow_choice.sh", SOK1X_TENSORFLOW=asked)
    assert (code, out) == (2, "") and "got {} version, expected one that sok1x is set up for".format(release) in error


@pytest.mark.parametrize("script, folders", [
    ("gpu_tests.sh", "tests/cuda_kernels tests/gpu tests/graph_ops tests/sok1x tests/launch tests/mpi"),
    ("host_sanitize.sh", "tests/cuda_kernels")])
def test_options_alone_leave_the_folders_as_they_are(script, folders):
    def asked_of_pytest(*arguments):
        code, out, error = run(script, *arguments, PYTHON="/bin/echo")
        assert code == 0, error
        return out.splitlines()[-1]

    assert asked_of_pytest().endswith(" " + folders)
    assert asked_of_pytest("-x", "-k", "some name").endswith(" " + folders + " -x -k some name")
    for given in ("tests/gpu", "tests/sok1x/test_sok1x_refusals.py::test_one"):
        line = asked_of_pytest("-x", given)
        assert line.endswith(" -x " + given) and folders + " -x" not in line

"""tools/setup_env.sh up to where it would install: what it says and does when something is missing.

The script runs in a copy of the tree, seeing only a folder of chosen programs: links to the real basic ones, and
stand-ins for those that would change this machine.
"""
import os
import shutil
import subprocess

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BASICS = ("bash", "sh", "env", "dirname", "mkdir", "cat", "sed", "grep", "awk", "sort", "ls", "rm", "cp", "tail",
          "head", "sleep", "uname", "sha256sum", "nproc", "touch", "flock", "chmod")
OPEN_MPI = ("mpiexec", "mpicc", "mpicxx", "g++")


class Sandbox:
    """A copy of the set-up scripts and a PATH of its own."""

    def __init__(self, folder):
        self.tree, self.bin = folder / "tree", folder / "bin"
        shutil.copytree(os.path.join(ROOT, "tools"), str(self.tree / "tools"))
        for name in os.listdir(ROOT):
            if name.startswith("requirements") or name in ("setup.py", "pyproject.toml", "Makefile"):
                shutil.copy(os.path.join(ROOT, name), str(self.tree))
        self.bin.mkdir()
        for name in BASICS:
            if shutil.which(name):
                os.symlink(shutil.which(name), str(self.bin / name))

    def program(self, name, text="exit 0"):
        path = self.bin / name
        path.write_text("#!/bin/sh\n{}\n".format(text))
        path.chmod(0o755)

    def user(self, number):
        self.program("id", "echo {}".format(number))

    def run(self, *arguments, **env):
        values = dict({"PATH": str(self.bin), "HOME": str(self.tree)}, **env)
        done = subprocess.run(["bash", str(self.tree / "tools" / "setup_env.sh")] + list(arguments), env=values,
                              timeout=60, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              universal_newlines=True)
        return done.returncode, done.stdout


@pytest.fixture
def sandbox(tmp_path):
    return Sandbox(tmp_path)


def test_as_a_user_missing_packages_are_one_command_to_type(sandbox):
    sandbox.user(1000)
    sandbox.program("apt-get", "touch called-apt; exit 1")
    code, out = sandbox.run()
    assert code == 1
    assert "sudo apt-get update && sudo apt-get install -y openmpi-bin libopenmpi-dev g++" in out
    assert not (sandbox.tree / "called-apt").exists()


def test_only_what_is_missing_is_named(sandbox):
    sandbox.user(1000)
    sandbox.program("apt-get")
    for name in OPEN_MPI:
        sandbox.program(name)
    (sandbox.bin / "mpicxx").unlink()
    assert "sudo apt-get install -y libopenmpi-dev\n" in sandbox.run()[1]


def test_as_root_they_are_installed_and_the_set_up_goes_on(sandbox):
    sandbox.user(0)
    makes = "\n".join('printf "#!/bin/sh\\n" > "{0}/{1}"; chmod +x "{0}/{1}"'.format(sandbox.bin, name)
                      for name in OPEN_MPI)
    sandbox.program("apt-get", 'echo "$@" >> {}/apt-calls\n[ "$1" = install ] || exit 0\n{}'.format(
        sandbox.tree, makes))
    code, out = sandbox.run(PYTHON="/nothing/python")
    calls = (sandbox.tree / "apt-calls").read_text().splitlines()
    assert [call.split()[0] for call in calls] == ["update", "install"]
    assert {"openmpi-bin", "libopenmpi-dev", "g++"} <= set(calls[1].split())
    assert code == 1 and "PYTHON=/nothing/python cannot be used" in out and "no Python to make .venv with" in out


def test_apt_that_fails_shows_its_words(sandbox):
    sandbox.user(0)
    sandbox.program("apt-get", 'echo "E: Unable to locate package"; exit 100')
    code, out = sandbox.run()
    assert code == 1 and "E: Unable to locate package" in out and "set-up stopped" in out


def test_without_apt_it_says_what_is_needed(sandbox):
    sandbox.user(0)
    code, out = sandbox.run()
    assert code == 1 and "Install Open MPI 4 with its headers and a C++ compiler" in out


def test_without_python_it_says_what_to_install(sandbox):
    sandbox.user(1000)
    for name in OPEN_MPI:
        sandbox.program(name)
    code, out = sandbox.run()
    assert code == 1 and "No Python 3.7 was found" in out and "uv python install 3.7" in out


def test_a_folder_that_is_no_environment_is_not_removed(sandbox):
    sandbox.user(1000)
    for name in OPEN_MPI:
        sandbox.program(name)
    (sandbox.tree / ".venv").mkdir()
    (sandbox.tree / ".venv" / "mine").write_text("keep")
    sandbox.program("pretend", 'if [ "$1" = - ]; then echo "$0"; fi')
    code, out = sandbox.run(PYTHON=str(sandbox.bin / "pretend"))
    assert code == 1 and "no virtual environment: move it away" in out
    assert (sandbox.tree / ".venv" / "mine").exists()


# A Python that notes its calls; it makes the wheels that it is asked for, and knows of no GPU.
PRETEND = """
echo "$*" >> calls
case "$*" in
    *libcuda*) exit 1 ;;
    *"pip wheel"*) mkdir -p build/setup/wheels && touch build/setup/wheels/mpi4py-4-pretended.whl ;;
esac
"""


@pytest.fixture
def with_python(sandbox):
    """A sandbox that has everything but packages; .venv is there, with the Python that notes its calls."""
    sandbox.user(1000)
    for name in OPEN_MPI:
        sandbox.program(name)
    environment(sandbox, ".venv")
    return sandbox


def environment(sandbox, name):
    """A virtual environment with the Python that notes its calls."""
    folder = sandbox.tree / name
    (folder / "bin").mkdir(parents=True)
    (folder / "pyvenv.cfg").write_text("")
    (folder / "bin" / "python").write_text("#!/bin/sh" + PRETEND)
    (folder / "bin" / "python").chmod(0o755)
    return folder


def calls(sandbox, *arguments, **env):
    """What Python was called with in a run that must succeed."""
    noted = sandbox.tree / "calls"
    noted.write_text("")
    code, out = sandbox.run(*arguments, **env)
    assert code == 0, out
    return noted.read_text().splitlines()


def matching(lines, words):
    return [number for number, line in enumerate(lines) if words in line]


def test_horovod_is_built_only_where_it_is_asked_for(with_python):
    first = calls(with_python)
    assert not matching(first, "horovod")
    editable, = matching(first, "install -q --no-deps --no-build-isolation -e .")
    tensorflow, = matching(first, "install -q -r build/setup/requirements.txt")
    assert tensorflow < editable and matching(first, "pip wheel -q --no-deps")
    assert len(matching(first, "build_native --only host_kernels")) == 1
    assert [line for line in calls(with_python) if "pip" in line.split()] == [], "a second call installs nothing"
    asked = [line for line in calls(with_python, "horovod") if "-m pip" in line]
    assert len(matching(asked, "horovod==")) == 1 and not matching(asked, "tensorflow") and not matching(asked, "-e .")
    assert not [line for line in calls(with_python, "horovod") + calls(with_python) if "-m pip" in line]


def test_what_changes_the_set_up_asks_for_horovod_again(with_python):
    calls(with_python, "horovod")
    with open(str(with_python.tree / "requirements.txt"), "a") as file:
        file.write("# changed\n")
    assert not matching(calls(with_python), "horovod==")
    assert len(matching(calls(with_python, "horovod"), "horovod==")) == 1


def test_tensorflow_2_has_an_environment_beside_the_other(with_python):
    asked = {"SOK1X_TENSORFLOW": "tensorflow-cpu==2.15.1"}
    folder = environment(with_python, ".venv-2.15")
    (folder / "sok1x-tensorflow").write_text("tensorflow-cpu==2.15.1\n")
    calls(with_python)
    made = calls(with_python, **asked)
    assert matching(made, "install -q -r build/setup-2.15/requirements.txt")
    assert not matching(made, "requirements-dev.txt") and not matching(made, "pip wheel")  # mpi4py has wheels there
    lines = (with_python.tree / "build" / "setup-2.15" / "requirements.txt").read_text().splitlines()
    assert "tensorflow-cpu==2.15.1" in lines and "tensorflow==2.15.1" not in lines and "numpy==1.26.4" in lines
    for again in ({}, asked):
        assert not [line for line in calls(with_python, **again) if "-m pip" in line], "both stay as they are"
    # tensorflow and tensorflow-cpu in one environment would write over each other.
    with_python.program("pretend", 'if [ "$1" = - ]; then echo "$0"; else echo made anew; exit 3; fi')
    code, out = with_python.run(SOK1X_TENSORFLOW="tensorflow==2.15.1", PYTHON=str(with_python.bin / "pretend"))
    assert code == 1 and "has another TensorFlow: making it anew" in out and "made anew" in out
    assert not folder.exists() and (with_python.tree / ".venv" / "bin" / "python").exists()


def test_a_release_that_it_does_not_know(sandbox):
    code, out = sandbox.run(SOK1X_TENSORFLOW="tensorflow==2.16.1")
    assert code == 2 and "got 2.16 version, expected one that sok1x is set up for" in out


def test_an_argument_that_it_does_not_know(sandbox):
    code, out = sandbox.run("Horovod")
    assert code == 2 and "got 'Horovod', expected nothing or 'horovod'" in out


def test_make_lists_its_targets():
    done = subprocess.run(["make"], cwd=ROOT, stdout=subprocess.PIPE, universal_newlines=True, timeout=120)
    listed = {line.split()[1] for line in done.stdout.splitlines() if line.startswith("  make ")}
    assert done.returncode == 0
    assert listed >= {"help", "env", "env-tests", "build", "demo", "test", "test-tf2", "lint", "check", "wheel",
                      "bench", "clean"}


@pytest.mark.parametrize("ranks", ["0", "x", "", "-1"])
def test_mpiexec_wrapper_refuses_what_is_no_number_of_ranks(ranks):
    done = subprocess.run([os.path.join(ROOT, "tools", "mpiexec.sh"), ranks, "true"], stderr=subprocess.PIPE,
                          universal_newlines=True, timeout=120)
    assert done.returncode == 2 and "RANKS" in done.stderr

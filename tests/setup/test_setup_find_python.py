"""tools/find_python.sh: where a Python 3.7 is looked for, in folders that hold pretenders and the real one."""
import os
import subprocess
import sys

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SYSTEM = os.pathsep.join(["/usr/bin", "/bin"])


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)
    return str(path)


def real(path):
    """A working Python 3.7 under another path (the one that runs the tests, outside its environment)."""
    base = os.path.join(sys.base_prefix, "bin", "python3.7")
    return write(path, 'exec "{}" "$@"\n'.format(base)), os.path.realpath(base)


def find(tmp_path, **env):
    """Runs the script where only tmp_path/bin, the system's tools and the given variables are to be seen."""
    values = {"PATH": "{}{}{}".format(tmp_path / "bin", os.pathsep, SYSTEM), "HOME": str(tmp_path / "home")}
    values.update({name: str(value) for name, value in env.items()})
    done = subprocess.run([os.path.join(ROOT, "tools", "find_python.sh")], env=values, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, universal_newlines=True, timeout=60)
    return done.returncode, done.stdout.strip(), done.stderr


def check_found(answer, base):
    code, out, err = answer
    assert code == 0, err
    assert os.path.realpath(out) == base


def test_variable_wins(tmp_path):
    path, base = real(tmp_path / "elsewhere" / "python")
    check_found(find(tmp_path, PYTHON=path), base)


def test_variable_that_does_not_serve_is_not_passed_over(tmp_path):
    real(tmp_path / "bin" / "python3.7")
    code, out, err = find(tmp_path, PYTHON=tmp_path / "nothing")
    assert (code, out) == (1, "") and "cannot be used" in err and "3.7" in err
    other = write(tmp_path / "other", "echo Python 3.11.2\n")
    code, out, err = find(tmp_path, PYTHON=other)
    assert (code, out) == (1, "") and "Python 3.11.2" in err


def test_shim_that_does_not_run_is_passed_over_for_pyenvs_version(tmp_path):
    write(tmp_path / "bin" / "python3.7", 'echo "pyenv: python3.7: command not found" >&2\nexit 127\n')
    _, base = real(tmp_path / "home" / ".pyenv" / "versions" / "3.7.16" / "bin" / "python")
    check_found(find(tmp_path), base)


def test_pyenv_root_and_newest_version(tmp_path):
    root = tmp_path / "pyenv"
    write(root / "versions" / "3.7.9" / "bin" / "python", "exit 1\n")
    _, base = real(root / "versions" / "3.7.16" / "bin" / "python")
    check_found(find(tmp_path, PYENV_ROOT=root), base)


def test_pyenv_command_says_where(tmp_path):
    write(tmp_path / "bin" / "pyenv", '[ "$1" = root ] && echo "{}"\n'.format(tmp_path / "far"))
    _, base = real(tmp_path / "far" / "versions" / "3.7.1" / "bin" / "python")
    check_found(find(tmp_path), base)


def test_conda_environment(tmp_path):
    _, base = real(tmp_path / "conda" / "envs" / "old" / "bin" / "python")
    write(tmp_path / "bin" / "conda", 'echo "# conda environments:"\necho "base  *  {0}"\necho "old  {0}/envs/old"\n'
          .format(tmp_path / "conda"))
    check_found(find(tmp_path), base)


def test_uv_is_asked_last(tmp_path):
    path, base = real(tmp_path / "uv-python" / "python3.7")
    write(tmp_path / "bin" / "uv", """
case "$1 $2" in
    "python install") touch "{0}" ;;
    "python find") [ -e "{0}" ] && echo "{1}" ;;
esac
""".format(tmp_path / "installed", path))
    check_found(find(tmp_path), base)
    assert (tmp_path / "installed").exists()


def test_nothing_found_says_what_to_install(tmp_path):
    code, out, err = find(tmp_path)
    assert (code, out) == (1, "")
    for hint in ("No Python 3.7", "pyenv install 3.7", "conda create", "uv python install 3.7", "PYTHON="):
        assert hint in err


def test_tensorflow_2_takes_the_best_of_several(tmp_path):
    """Of 3.11, 3.10 and 3.9 the first that there is; a 3.7 does not serve."""
    real(tmp_path / "bin" / "python3.7")
    say = 'case "$2" in {0}) echo "$0" ;; *) exit 1 ;; esac\n'
    for name in ("python3.9", "python3.10"):
        write(tmp_path / "bin" / name, say.format(name[len("python"):]))
    for name in ("python3.11", "python3", "python"):  # not this machine's
        write(tmp_path / "bin" / name, "exit 1\n")
    code, out, err = find(tmp_path, SOK1X_TENSORFLOW="tensorflow-cpu==2.15.1")
    assert (code, out) == (0, str(tmp_path / "bin" / "python3.10")), err


@pytest.mark.parametrize("asked, said", [
    ("tensorflow==2.16.1", "got 2.16 version"), ("tensorflow", "got no version"), ("tensorflow>=3.0", "got 3.0")])
def test_a_tensorflow_that_there_is_no_set_up_for(tmp_path, asked, said):
    code, out, err = find(tmp_path, SOK1X_TENSORFLOW=asked)
    assert (code, out) == (2, "") and said in err and "tensorflow==2.15.1" in err and "tensorflow==1.15.5" in err


def test_nvidias_tensorflow_wants_38(tmp_path):
    real(tmp_path / "bin" / "python3.7")
    code, _, err = find(tmp_path, SOK1X_TENSORFLOW="nvidia-tensorflow==1.15.5")
    assert code == 1 and "No Python 3.8" in err

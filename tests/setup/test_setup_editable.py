"""The editable install wins over the checkout's own folder, which is called sok1x too and is no package."""
import os
import subprocess
import sys

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SCRIPT = "import sok1x; from sok1x import launch; import sok1x.graph_ops.stores.table as table; " \
         "print(callable(sok1x.Init), sok1x.__file__, launch.__file__, table.__file__)"


@pytest.mark.parametrize("place", ["beside the checkout", "in the checkout", "elsewhere"])
def test_a_script_finds_the_package(tmp_path, place):
    (tmp_path / "beside").mkdir()
    os.symlink(ROOT, str(tmp_path / "beside" / "sok1x"))
    folder = {"beside the checkout": tmp_path / "beside", "elsewhere": tmp_path}.get(place)
    script = (folder or tmp_path) / "train.py"
    script.write_text(SCRIPT)
    env = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    for command in ([str(script)], ["-c", SCRIPT]):
        done = subprocess.run([sys.executable, "-W", "ignore"] + command, cwd=str(folder or ROOT), env=env, timeout=60,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)
        assert done.returncode == 0, done.stderr
        is_there, *files = done.stdout.split()
        assert is_there == "True" and all(os.path.realpath(one).startswith(ROOT + os.sep) for one in files), done.stdout


def test_another_checkout_on_the_path_counts_more(tmp_path):
    (tmp_path / "on_the_path" / "sok1x").mkdir(parents=True)
    (tmp_path / "on_the_path" / "sok1x" / "__init__.py").write_text("another = True\n")
    done = subprocess.run([sys.executable, "-c", "import sok1x; print(sok1x.another)"],
                          env=dict(os.environ, PYTHONPATH=str(tmp_path / "on_the_path")), cwd=str(tmp_path),
                          timeout=60, stdout=subprocess.PIPE, universal_newlines=True)
    assert done.stdout == "True\n"

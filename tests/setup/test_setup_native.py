"""`setup.py build_native`: builds what changed and only that, replaces in one step, says what is wrong."""
import ctypes
import json
import os
import shutil
import subprocess
import sys

import pytest

from sok1x.graph_ops.bridge import bridge

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BRIDGE = "graph_ops/bridge/" + os.path.basename(bridge.PATH)
KERNELS = "cuda_kernels/_host_kernels.so"


@pytest.fixture
def tree(tmp_path):
    """A source tree whose libraries compile in no time."""
    shutil.copy(os.path.join(ROOT, "setup.py"), str(tmp_path))
    for folder, name in (("tools", "native_libraries.py"), ("tools", "build_commands.py"),
                         ("cuda_kernels", "build_host.py"), ("cuda_kernels", "native.py"),
                         ("graph_ops/bridge", "build_op.py")):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        shutil.copy(os.path.join(ROOT, folder, name), str(tmp_path / folder))
    for name, text in (("graph_ops/bridge/bridge.cc", 'extern "C" int one() { return 1; }\n'),
                       ("cuda_kernels/sum.cu", '#include "common.cuh"\nextern "C" int two() { return TWO; }\n'),
                       ("cuda_kernels/common.cuh", "#define TWO 2\n"), ("sok1x/__init__.py", "")):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    remembered = os.path.join(ROOT, "build", "native", "tensorflows.json")
    if os.path.exists(remembered):
        (tmp_path / "build" / "native").mkdir(parents=True)
        shutil.copy(remembered, str(tmp_path / "build" / "native"))
    return tmp_path


def build(tree, *options, **env):
    values = {name: value for name, value in os.environ.items() if name != "SETUPTOOLS_USE_DISTUTILS"}
    done = subprocess.run([sys.executable, "setup.py", "-q", "build_native"] + list(options), cwd=str(tree),
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True, timeout=120,
                          env=dict(values, **env))
    return done.returncode, done.stdout


def built(output):
    return [line.split()[1] for line in output.splitlines() if line.startswith("built ")]


def test_only_what_changed(tree):
    assert built(build(tree)[1]) == [BRIDGE, KERNELS]
    assert build(tree) == (0, "")
    (tree / "cuda_kernels" / "common.cuh").write_text("#define TWO 22\n")
    assert built(build(tree)[1]) == [KERNELS]
    (tree / "graph_ops" / "bridge" / "bridge.cc").write_text('extern "C" int one() { return 11; }\n')
    before = os.stat(str(tree / BRIDGE)).st_ino
    assert built(build(tree)[1]) == [BRIDGE]
    assert os.stat(str(tree / BRIDGE)).st_ino != before, "a loaded library must not be written over"
    (tree / KERNELS).unlink()
    assert built(build(tree)[1]) == [KERNELS]
    assert built(build(tree, "--force")[1]) == [BRIDGE, KERNELS]


def test_each_tensorflow_has_a_library_of_its_own(tree):
    """As two environments have it that share a checkout: neither builds what the other one uses."""
    build(tree)
    remembered = tree / "build" / "native" / "tensorflows.json"
    mine = remembered.read_text()
    known = json.loads(mine)
    answer = known[sys.executable]["answer"]
    answer[0], answer[1] = "2.99.7", 1 - answer[1]
    remembered.write_text(json.dumps(known))
    other = "graph_ops/bridge/_bridge.tf2.99.7-abi{}.so".format(answer[1])
    before = os.stat(str(tree / BRIDGE)).st_ino
    assert built(build(tree)[1]) == [other]
    remembered.write_text(mine)
    assert build(tree) == (0, "") and os.stat(str(tree / BRIDGE)).st_ino == before
    assert (tree / other).exists()


def test_a_fresh_clone_is_asked_for_its_libraries_before_they_are_built(tree):
    """As pip does, which wants a wheel's metadata first: then there is no build folder yet."""
    shutil.rmtree(str(tree / "build"), ignore_errors=True)
    ask = "import native_libraries; print(sorted(native_libraries.libraries()))"
    done = subprocess.run([sys.executable, "-c", ask], cwd=str(tree / "tools"), stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, universal_newlines=True, timeout=120)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, str(sorted([BRIDGE, KERNELS]))), done.stdout


def test_sources_that_do_not_compile_leave_the_old_library(tree):
    build(tree)
    with open(str(tree / KERNELS), "rb") as file:
        old = file.read()
    (tree / "cuda_kernels" / "sum.cu").write_text("int broken(\n")
    code, out = build(tree)
    assert code != 0 and "did not compile" in out and "sum.cu" in out and "Traceback" not in out
    with open(str(tree / KERNELS), "rb") as file:
        assert file.read() == old
    assert sorted(set(os.listdir(str(tree / "cuda_kernels"))) - {"__pycache__"}) == [
        "_host_kernels.so", "build_host.py", "common.cuh", "native.py", "sum.cu"]
    code, out = build(tree)
    assert code != 0 and "did not compile" in out, "a failure must not be remembered as built"


def test_no_compiler_is_said_plainly(tree):
    code, out = build(tree, CXX="no-such-compiler")
    assert code != 0 and "'no-such-compiler' was not found" in out and "apt-get install g++" in out
    assert "Traceback" not in out


def test_no_tensorflow_is_said_plainly(tree):
    blocker = tree / "blocker" / "sitecustomize.py"
    blocker.parent.mkdir()
    blocker.write_text("import importlib.util as u\nfind = u.find_spec\n"
                       "u.find_spec = lambda name, *a: None if name == 'tensorflow' else find(name, *a)\n")
    code, out = build(tree, PYTHONPATH=str(blocker.parent))
    assert code != 0 and "tensorflow==1.15.5" in out and "tensorflow==2.15.1" in out
    assert "--no-build-isolation" in out and "Traceback" not in out


def test_only_sources_that_changed_are_compiled(tree):
    (tree / "cuda_kernels" / "other.cu").write_text('extern "C" int three() { return 3; }\n')
    (tree / "graph_ops" / "groups").mkdir()
    (tree / "graph_ops" / "groups" / "more.cc").write_text(
        '#include "../../cuda_kernels/group_more.h"\nextern "C" int four() { return FOUR; }\n')
    (tree / "cuda_kernels" / "group_more.h").write_text("#define FOUR 4\n")
    assert build(tree)[0] == 0
    made = sorted((tree / "build" / "native").glob("*/*.o"))
    assert [path.name for path in made] == ["bridge.cc.o", "more.cc.o", "other.cu.o", "sum.cu.o"]

    def compiled_by(change):
        before = [os.stat(str(path)).st_mtime_ns for path in made]
        change()
        assert build(tree)[0] == 0
        return [path.name for path, old in zip(made, before) if os.stat(str(path)).st_mtime_ns != old]

    assert compiled_by(lambda: (tree / "cuda_kernels" / "common.cuh").write_text("#define TWO 3\n")) == ["sum.cu.o"]
    assert compiled_by(lambda: (tree / "cuda_kernels" / "group_more.h").write_text("#define FOUR 5\n")) == ["more.cc.o"]
    assert compiled_by(lambda: made[2].unlink() or (tree / KERNELS).unlink()) == ["other.cu.o"]
    library = ctypes.CDLL(str(tree / BRIDGE))
    assert (library.one(), library.four()) == (1, 5)

"""`make wheel`: a wheel without machine code, compiled where it is installed, once, for the TensorFlow there."""
import glob
import os
import shutil
import subprocess
import sys
import zipfile

import pytest
from ranks import environment, run_ranks

from sok1x.cuda_kernels import host, kernel_cache, native
from sok1x.graph_ops.bridge import bridge

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SITE_PACKAGES = os.path.dirname(os.path.dirname(pytest.__file__))
LIBRARIES = {"graph_ops/bridge/" + os.path.basename(bridge.PATH): bridge.PATH,
             "cuda_kernels/_host_kernels.so": host.LIBRARY}

# A compiler that notes what it is asked for, and links what was linked in this checkout.
STAND_IN = """#!/bin/sh
while [ $# -gt 0 ]; do
    case "$1" in
        -o) output=$2 ;;
        -MF) echo "x: /dev/null" >"$2" ;;
        -shared) shared=yes ;;
    esac
    shift
done
[ -n "$shared" ] || { : >"$output"; exit 0; }
case "$output" in
    *_bridge*) echo op >>"$CALLS"; cp "$OP" "$output" ;;
    *) echo kernels >>"$CALLS"; cp "$KERNELS" "$output" ;;
esac
"""

LOOKUP = """
import sys
sys.path[:0] = [{!r}]
import numpy as np, tensorflow.compat.v1 as tf, sok1x as sok
assert sok.__file__.startswith(sys.path[0])
with tf.Graph().as_default(), tf.Session() as session:
    layer = sok.All2AllDenseEmbedding(max_vocabulary_size_per_gpu=64, embedding_vec_size=2, slot_num=1, nnz_per_slot=1,
                                      embedding_initializer="ones")
    out = tf.reduce_sum(layer(tf.constant([[[3]], [[-5]]], tf.int64), training=True))
    session.run(sok.Init(global_batch_size=4))
    session.run(tf.global_variables_initializer())
    sys.stdout.write("sum " + str(session.run(out)) + "\\n")  # in one piece: there are two ranks
"""


def plain(**env):
    """An environment in which this checkout is out of sight."""
    values = environment(env)
    return {name: value for name, value in values.items()
            if name not in ("PYTHONPATH", "SETUPTOOLS_USE_DISTUTILS") and not name.startswith("OMPI_COMM")}


def run(*command, **options):
    options.setdefault("env", plain())
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True,
                          timeout=options.pop("timeout", 120), **options)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Made from a copy of a checkout that has built libraries, where neither a compiler nor TensorFlow is asked for."""
    source = tmp_path_factory.mktemp("source")
    for name in ("sok1x", "graph_ops", "cuda_kernels", "launch", "tools"):
        shutil.copytree(os.path.join(ROOT, name), str(source / name), symlinks=True,
                        ignore=shutil.ignore_patterns("__pycache__", "*.partial.so"))
    for name in ("setup.py", "pyproject.toml", "MANIFEST.in", "README.md", "LICENSE"):
        shutil.copy(os.path.join(ROOT, name), str(source))
    made = run(sys.executable, "setup.py", "-q", "source_wheel", cwd=str(source), env=plain(CXX="no-such-compiler"))
    assert made.returncode == 0, made.stdout + made.stderr
    path, = glob.glob(str(source / "dist" / "*.whl"))
    return path


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """The wheel installed into a folder of its own."""
    target = tmp_path_factory.mktemp("site")
    done = run(sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--target", str(target), wheel)
    assert done.returncode == 0, done.stdout + done.stderr
    return target


def test_it_has_sources_and_no_machine_code(wheel):
    assert os.path.basename(wheel).endswith("-py3-none-linux_x86_64.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert not [name for name in names if name.endswith((".so", ".o"))]
    for folder, pattern in (("graph_ops/bridge", "*.cc"), ("graph_ops/bridge", "*.h"), ("graph_ops/groups", "*.cc"),
                            ("cuda_kernels", "*.cu"), ("cuda_kernels", "*.cuh"), ("cuda_kernels", "*.h")):
        here = {"sok1x/{}/{}".format(folder, os.path.basename(name))
                for name in glob.glob(os.path.join(ROOT, folder, pattern))}
        assert here and here <= set(names)


def test_without_a_compiler_it_says_what_to_install(installed):
    finished = run_ranks(0, LOOKUP.format(str(installed)), check=False, env={"CXX": "no-such-compiler"})
    assert finished.code != 0 and "ImportError" in finished.err
    assert "'no-such-compiler' was not found: install g++ (Debian, Ubuntu: apt-get install g++)" in finished.err
    program = "import sys; sys.path[:0] = [{!r}]; sys.modules['mpi4py'] = None\nfrom sok1x import build\n" \
              "sys.exit(build.main([]))".format(str(installed))
    finished = run_ranks(0, program, check=False, env={"CXX": "no-such-compiler"})
    assert finished.code == 1 and "what to do: apt-get install g++" in finished.err
    assert "MPI (mpi4py): not installed" in finished.err and "nothing was compiled" in finished.err


def test_the_first_use_compiles_it_once(installed, tmp_path):
    """Two ranks that start together: one compiles, and both use it; later processes find it."""
    stand_in = tmp_path / "compiler"
    stand_in.write_text(STAND_IN)
    stand_in.chmod(0o755)
    env = {"CXX": str(stand_in), "CALLS": str(tmp_path / "calls"), "OP": bridge.PATH, "KERNELS": host.LIBRARY}
    finished = run_ranks(2, LOOKUP.format(str(installed)), check=False, env=env)
    assert finished.code == 0 and finished.out.count("sum 4.0") == 2, str(finished)
    assert sorted((tmp_path / "calls").read_text().split()) == ["kernels", "op"]
    assert finished.err.count("sok1x: compiling its op for TensorFlow") == 1
    finished = run_ranks(0, LOOKUP.format(str(installed)), env=env)
    assert "sum 4.0" in finished.out and len((tmp_path / "calls").read_text().split()) == 2
    record, = glob.glob(str(installed / "sok1x-*.dist-info" / "RECORD"))
    with open(record) as file:
        lines = file.read().splitlines()
    for name in LIBRARIES:
        assert (installed / "sok1x" / name).exists()
        assert lines.count("sok1x/{},,".format(name)) == lines.count("sok1x/{}.lock,,".format(name)) == 1


def test_what_lies_outside_the_package_is_not_pips(monkeypatch, tmp_path):
    """And a list of pip's that cannot be written, or read, is no reason to fail."""
    package = tmp_path / "site" / "sok1x" / "cuda_kernels"
    package.mkdir(parents=True)
    record = tmp_path / "site" / "sok1x-0.2.0.dist-info" / "RECORD"
    record.mkdir(parents=True)  # root may write any file, but no folder
    monkeypatch.setattr(native, "HERE", str(package))
    for path in (tmp_path / "cache" / "_one.so", package / "_one.so"):
        native._note_for_pip([str(path)])
    record.rmdir()
    record.write_text("sok1x/__init__.py,,")
    for path in (tmp_path / "cache" / "_one.so", package / "_one.so"):
        native._note_for_pip([str(path)])
    assert record.read_text() == "sok1x/__init__.py,,\nsok1x/cuda_kernels/_one.so,,\n"


def test_where_the_package_cannot_be_written(monkeypatch, tmp_path):
    monkeypatch.setattr(native, "is_checkout", lambda: False)
    monkeypatch.setattr(native.os, "access", lambda *_: False)
    monkeypatch.setattr(native, "compiler", lambda: ["g++"])
    monkeypatch.setenv("SOK1X_CACHE_DIR", str(tmp_path / "cache"))
    source = tmp_path / "one.cc"
    source.write_text("1")
    first = native.place(str(tmp_path), "_one.so", lambda: [str(source)])
    assert first.startswith(str(tmp_path / "cache") + os.sep) and first.endswith("/_one.so")
    assert native.place(str(tmp_path), "_one.so", lambda: [str(source)]) == first
    source.write_text("2")
    assert native.place(str(tmp_path), "_one.so", lambda: [str(source)]) != first
    made = []
    assert native.ensure(first, "one", lambda output: made.append(output) or open(output, "w").close())
    assert not native.ensure(first, "one", made.append) and len(made) == 1 and os.path.exists(first)
    kernel_cache._sweep(str(tmp_path / "cache"))
    assert os.path.exists(first)


@pytest.mark.slow
def test_a_fresh_environment_from_wheel_to_two_ranks(wheel, tmp_path):
    """With TensorFlow as it is here, and the real compiler; pip removes what it has installed and what was compiled."""
    home = tmp_path / "env"
    done = run(sys.executable, "-m", "venv", str(home))
    assert done.returncode == 0, done.stderr
    python = str(home / "bin" / "python")
    site, = glob.glob(str(home / "lib" / "python3.*" / "site-packages"))
    # What else is needed is taken from here; the .pth files there are not read, so this checkout is out of sight.
    with open(os.path.join(site, "here.pth"), "w") as file:
        file.write(SITE_PACKAGES + "\n")
    done = run(python, "-m", "pip", "install", "-q", "--no-deps", "--no-index", wheel)
    assert done.returncode == 0, done.stdout + done.stderr
    done = run(python, "-m", "sok1x.build", timeout=900, cwd=str(tmp_path))
    assert done.returncode == 0 and done.stdout.count("ready: " + site) == 2, done.stdout + done.stderr
    script = tmp_path / "script.py"
    script.write_text(LOOKUP.format(site))
    done = run(os.path.join(ROOT, "tools", "mpiexec.sh"), "2", python, str(script), cwd=str(tmp_path))
    assert done.returncode == 0 and done.stdout.count("sum 4.0") == 2, done.stdout + done.stderr
    done = run(python, "-m", "pip", "uninstall", "-q", "-y", "sok1x")
    assert done.returncode == 0 and not os.path.exists(os.path.join(site, "sok1x")), done.stdout + done.stderr

"""A wheel has every file once and for real, needs nothing of the checkout, and adds one name to site-packages."""
import collections
import os
import shutil
import subprocess
import sys
import zipfile

import pytest

from sok1x.graph_ops.bridge import bridge

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
INNER = ("graph_ops", "cuda_kernels", "launch")
LIBRARIES = ("graph_ops/bridge/" + os.path.basename(bridge.PATH), "cuda_kernels/_host_kernels.so")


def environment(values):
    """As users have it: setuptools with distutils of its own (see tests/conftest.py)."""
    return {name: value for name, value in values.items() if name != "SETUPTOOLS_USE_DISTUTILS"}


def run(*command, **options):
    options.setdefault("env", environment(os.environ))
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True,
                          timeout=300, **options)
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Built from a copy of what a clone would have, with the libraries already built here to save their minute."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    ignore = shutil.ignore_patterns("__pycache__", "*.partial.so")
    for name in ("sok1x", "tools") + INNER:
        shutil.copytree(os.path.join(ROOT, name), str(source / name), symlinks=True, ignore=ignore)
    for name in ("setup.py", "pyproject.toml", "MANIFEST.in", "README.md", "LICENSE"):
        if os.path.exists(os.path.join(ROOT, name)):
            shutil.copy(os.path.join(ROOT, name), str(source))
    shutil.copytree(os.path.join(ROOT, "build", "native"), str(source / "build" / "native"))
    # What an earlier build left, or one for another TensorFlow, must not get into the wheel.
    for name in ("_bridge.so", "_bridge.tf2.99.7-abi1.so"):
        (source / "graph_ops" / "bridge" / name).write_text("")
    stale = source / "build" / "lib" / "sok1x" / "stale.py"
    stale.parent.mkdir(parents=True)
    stale.write_text("")
    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "--no-cache-dir", "-w",
        str(out), str(source), cwd=str(out))
    names = os.listdir(str(out))
    assert len(names) == 1 and names[0].endswith(".whl")
    return str(out / names[0]), source


def test_every_file_is_there_once(wheel):
    path, source = wheel
    with zipfile.ZipFile(path) as archive:
        infos = archive.infolist()
    names = [info.filename for info in infos]
    assert max(collections.Counter(names).values()) == 1
    assert not [info.filename for info in infos if info.external_attr >> 28 == 0xA], "links in the wheel"
    expected = set()
    for name in ("sok1x",) + INNER:
        for folder, inside, files in os.walk(str(source / name)):
            inside[:] = [i for i in inside if not os.path.islink(os.path.join(folder, i))]
            relative = os.path.relpath(folder, str(source))
            prefix = relative if name == "sok1x" else os.path.join("sok1x", relative)
            expected |= {os.path.join(prefix, file) for file in files
                         if file.endswith((".py", ".cu", ".cuh", ".cc", ".h", ".typed"))}
    expected |= {"sok1x/" + library for library in LIBRARIES}
    got = {name for name in names if ".dist-info/" not in name}
    assert got == expected
    assert "-cp37-cp37m-linux_" in path or sys.version_info[:2] != (3, 7)


def test_installed_it_adds_one_name_and_works_without_the_checkout(wheel, tmp_path):
    target = tmp_path / "site"
    run(sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--target", str(target), wheel[0])
    assert [name for name in os.listdir(str(target)) if not name.endswith(".dist-info")] == ["sok1x"]
    # -S: no .pth file is read, so the checkout that .venv links to is out of sight.
    site_packages = os.path.dirname(os.path.dirname(pytest.__file__))
    program = """
import site, sys
site.USER_SITE = ""  # -S leaves None, which TensorFlow does not expect
for folder in {!r}:
    sys.path.append(folder)
import sok1x, sok1x.graph_ops, sok1x.cuda_kernels, sok1x.launch
for module in (sok1x, sok1x.graph_ops, sok1x.cuda_kernels, sok1x.launch):
    print(module.__file__)
import tensorflow.compat.v1 as tf
tf.logging.set_verbosity("ERROR")
tf.disable_v2_behavior()
init = sok1x.Init(global_batch_size=4)
layer = sok1x.All2AllDenseEmbedding(max_vocabulary_size_per_gpu=8, embedding_vec_size=2, slot_num=1, nnz_per_slot=1,
                                    embedding_initializer="ones")
out = layer(tf.constant([[[3]], [[-5]]], tf.int64), training=True)
with tf.Session() as session:
    print(session.run(init).decode())
    session.run(tf.global_variables_initializer())
    print(session.run(tf.reduce_sum(out)))
""".format([str(target), site_packages])
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "OMPI_"))}
    out = run(sys.executable, "-S", "-W", "ignore", "-c", program, cwd=str(tmp_path), env=env).split()
    files = [line for line in out if line.endswith("__init__.py")]
    assert len(files) == 4 and all(file.startswith(str(target)) for file in files)
    assert out[-2:] == ["OK", "4.0"]

"""The import, the exported names, and the alias under SOK's name. Each case is a process of its own."""
import os
import subprocess
import sys

import pytest
from tensorflow2_skips import LOG_LEVEL

import sok1x

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def python(program, folder=ROOT, **environment):
    """Runs a program in a clean interpreter; returns (exit code, stdout, stderr)."""
    child = subprocess.run([sys.executable, "-W", "ignore", "-c", program], cwd=folder, timeout=120,
                           env=dict(os.environ, PYTHONPATH=ROOT, TF_CPP_MIN_LOG_LEVEL=LOG_LEVEL, **environment),
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)
    return child.returncode, child.stdout, child.stderr


def test_import_prints_and_starts_nothing():
    code, out, err = python(
        "import sys, threading, sok1x, sok1x as sok\n"
        "loaded = [name for name in sys.modules if name.split('.')[0] in\n"
        "          ('tensorflow', 'tensorflow_core', 'mpi4py', 'horovod', 'pycuda')]\n"
        "assert not loaded, loaded\n"
        "assert threading.active_count() == 1\n"
        "assert sok.__version__ and dir(sok)\n", CUDA_VISIBLE_DEVICES="")
    assert (code, out, err) == (0, "", "")


def test_every_name_loads_quietly_and_starts_nothing():
    """Also all names together touch no MPI, no Horovod, start no thread, and do not load the native libraries."""
    code, out, err = python(
        "import sys, threading, warnings, tensorflow, sok1x as sok\n"
        "before = threading.active_count()\n"
        "for name in sok.__all__: getattr(sok, name)\n"
        "assert not [name for name in sys.modules if name.split('.')[0] in ('mpi4py', 'horovod', 'pycuda')]\n"
        "assert threading.active_count() == before\n"
        "maps = open('/proc/self/maps').read()\n"
        "assert '/_bridge.' not in maps and '_host_kernels.so' not in maps\n")
    assert (code, out, err) == (0, "", "")


def test_all_is_what_there_is():
    assert sorted(sok1x.__all__) == sorted(set(sok1x._DEFINED_IN) | set(sok1x._MODULES) | {"__version__"})
    for name, module in sok1x._DEFINED_IN.items():
        if name != "tf_version":  # a list
            assert getattr(sok1x, name).__module__ == "sok1x." + module


def test_unknown_name_says_what_there_is():
    with pytest.raises(AttributeError, match="Saber.*DistributedEmbedding"):
        sok1x.Saber


def test_in_tensorflow2():
    import tensorflow
    assert sok1x.kit_lib.in_tensorflow2() is (not tensorflow.__version__.startswith("1."))


PATHS = """
core.initialize.Init core.context_scope.OptimizerScope core.embedding_variable.EmbeddingVariable
core.graph_keys.GraphKeys embeddings.distributed_embedding.DistributedEmbedding
embeddings.all2all_dense_embedding.All2AllDenseEmbedding optimizers.utils.split_embedding_variable_from_others
kit_lib.in_tensorflow2 saver.saver.Saver
""".split()


@pytest.mark.parametrize("order", ["forwards", "backwards"])
def test_alias_gives_the_same_modules_in_any_order(order):
    code, out, err = python("""
import importlib, sys
import sok1x
if %r == "backwards":
    import sok1x.core.initialize, sok1x.embeddings.distributed_embedding
sok1x.install_as_sparse_operation_kit()
sok1x.install_as_sparse_operation_kit()
assert sum(type(finder).__module__ == "sok1x.alias" for finder in sys.meta_path) == 1
paths = %r
for path in paths if %r == "forwards" else paths[::-1]:
    module, name = path.rsplit(".", 1)
    alias, own = (importlib.import_module(root + "." + module) for root in ("sparse_operation_kit", "sok1x"))
    assert alias is own, path
    assert own.__name__ == own.__spec__.name == "sok1x." + module, (own.__name__, own.__spec__)
    if name != "GraphKeys":
        assert hasattr(own, name)
import sparse_operation_kit as sok
from sparse_operation_kit.embeddings import distributed_embedding
from sparse_operation_kit import Init, DistributedEmbedding
import sparse_operation_kit.optimizers.utils
assert sok is sok1x and DistributedEmbedding is distributed_embedding.DistributedEmbedding is sok1x.DistributedEmbedding
assert sok.optimizers.utils is sys.modules["sok1x.optimizers.utils"]
assert Init is sok.core.initialize.Init
for missing in ("saber", "core.nothing"):
    try:
        importlib.import_module("sparse_operation_kit." + missing)
    except ModuleNotFoundError as error:
        assert "sok1x." + missing in str(error), error
    else:
        raise AssertionError(missing)
""" % (order, PATHS, order))
    assert (code, out, err) == (0, "", "")


def test_alias_refuses_after_the_real_package(tmp_path):
    package = tmp_path / "sparse_operation_kit"
    package.mkdir()
    (package / "__init__.py").write_text("")
    program = "import sparse_operation_kit, sok1x\nsok1x.install_as_sparse_operation_kit()"
    code, out, err = python(program, str(tmp_path))
    assert code == 1 and not out
    assert "ImportError" in err and str(package) in err and "before that import" in err


def test_alias_comes_before_an_installed_package(tmp_path):
    package = tmp_path / "sparse_operation_kit"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('the other one')")
    code, out, err = python(
        "import sok1x; sok1x.install_as_sparse_operation_kit(); import sparse_operation_kit as s; assert s is sok1x",
        str(tmp_path))
    assert (code, out, err) == (0, "", "")

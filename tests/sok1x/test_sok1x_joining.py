"""sok.init: joining the ranks from Python, before, after and beside sok.Init."""
import pytest
import tensorflow.compat.v1 as tf
from ranks import run_ranks
from sok1x_cases import graph

import sok1x as sok

v1 = tf


def test_once_or_again_with_any_comm_tool_a_session_or_none():
    with v1.Session():
        for arguments in ((), ("horovod",), ("mpi", False), (None,), ("horovod", True)):
            assert sok.init(*arguments) is None
    sok.init(comm_tool="mpi", use_legacy_optimizer=False)
    sok.set_comm_tool("mpi")
    assert (sok.communication.rank(), sok.communication.num_ranks(), sok.communication.num_gpus()) == (0, 1, 1)
    assert (sok.communication.global_gpu_id(), sok.communication.id_in_rank()) == (0, 0)
    assert sok.tf_version == [int(number) for number in tf.__version__.split(".")[:3]]


@pytest.mark.parametrize("function", [sok.init, sok.set_comm_tool])
def test_an_unknown_comm_tool(function):
    with pytest.raises(ValueError, match="comm_tool: got 'gloo', expected 'horovod' or 'mpi'"):
        function("gloo")


@pytest.mark.parametrize("wrong, error, words", [
    (dict(seed=-1), ValueError, r"sok1x.init: seed: got -1"),
    (dict(seed=1.5), TypeError, r"sok1x.init: seed: got 1.5 of type float"),
])
def test_wrong_seeds(wrong, error, words):
    with pytest.raises(error, match=words):
        sok.init(**wrong)


IN_ANY_ORDER = """
import os, sys
import numpy as np
import tensorflow.compat.v1 as tf
tf.logging.set_verbosity(tf.logging.ERROR)
import sok1x as sok

def refused(error, words, function, *arguments, **options):
    try:
        function(*arguments, **options)
    except error as found:
        assert words in str(found), found
        return
    raise AssertionError("nothing was refused: " + words)

refused(RuntimeError, "call sok1x.init() first", sok.communication.num_ranks)
with tf.Graph().as_default():
    refused(RuntimeError, "call sok1x.init() before", sok.Variable, [[1.0]], name="mine")
order = sys.argv[1]
if order == "init first":
    with tf.Session() as session:  # made before the ranks have joined
        sok.init(seed=5)
        layer = sok.All2AllDenseEmbedding(16, 4, 1, 1)
        out = layer(tf.constant([[[7]]], tf.int64))
        session.run(tf.global_variables_initializer())  # no sok.Init has run
        session.run(out)
        assert session.run(sok.Init(global_batch_size=8)) == b"OK"
        assert session.run(sok.Init(global_batch_size=8, seed=5)) == b"OK"
        refused(tf.errors.InvalidArgumentError, "got seed 6 on rank", session.run, sok.Init(seed=6))
        sok.InitHook(global_batch_size=8).begin()
else:
    with tf.Session() as session:
        assert session.run(sok.Init(global_batch_size=8, seed=5)) == b"OK"
        sok.init()
        sok.init(seed=5)
        refused(ValueError, "seed: got 6, but the ranks have joined with seed 5", sok.init, seed=6)
        assert session.run(sok.Init(global_batch_size=8, seed=6)) == b"OK"  # as ever: nothing happens
table = sok.Variable(shape=[2 * sok.communication.num_ranks(), 3], initializer="uniform", name="mine")
with tf.Session() as session:
    session.run(table.initializer)
    sys.stdout.write("rows {} {}\\n".format(sok.communication.rank(), session.run(table).sum()))
if order == "init first" and sok.communication.num_ranks() == 1:
    child = os.fork()
    if not child:
        code = 1
        try:
            sok.init()
        except tf.errors.FailedPreconditionError as error:
            code = 0 if "forked from one in which sok1x was in use" in error.message else 2
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
print("ok")
"""


@pytest.mark.parametrize("ranks", [0, 2])
def test_init_and_the_op_in_any_order(ranks):
    rows = set()
    for order in ("init first", "init last"):
        finished = run_ranks(ranks, IN_ANY_ORDER, order)
        assert finished.out.count("ok") == max(1, ranks), str(finished)
        rows.add(tuple(sorted(line for line in finished.out.splitlines() if line.startswith("rows"))))
    assert len(rows) == 1  # one seed, one table


FINALIZED = """
import tensorflow.compat.v1 as tf
from mpi4py import MPI
import sok1x as sok
MPI.Finalize()
try:
    sok.init()
except tf.errors.FailedPreconditionError as error:
    assert "MPI is finalised already in this process" in error.message, error.message
    print("ok")
"""


@pytest.mark.parametrize("ranks", [0, 2])
def test_after_mpi_has_been_finalized(ranks):
    finished = run_ranks(ranks, FINALIZED)
    assert finished.out.count("ok") == max(1, ranks), str(finished)


DISAGREEMENT = """
import tensorflow.compat.v1 as tf
import sok1x as sok
from mpi4py import MPI
try:
    sok.init(seed=MPI.COMM_WORLD.rank)
except tf.errors.InvalidArgumentError as error:
    assert "seed" in error.message and "rank" in error.message, error.message
    sok.init(seed=4)
    print("ok")
"""


def test_ranks_that_disagree_on_the_seed_may_try_again():
    finished = run_ranks(2, DISAGREEMENT)
    assert finished.out.count("ok") == 2, str(finished)


NAMES_OF_SOK_2 = """
import sok1x
sok1x.install_as_sparse_operation_kit()
import sparse_operation_kit as sok
from sparse_operation_kit import communication
from sparse_operation_kit.lookup import lookup_sparse
for name in ("init", "set_comm_tool", "tf_version", "Variable", "DistributedVariable", "LocalizedVariable",
             "lookup_sparse", "all2all_dense_embedding", "export", "assign", "communication", "Init",
             "DistributedEmbedding"):
    assert getattr(sok, name) is getattr(sok1x, name) and name in sok.__all__, name
assert lookup_sparse is sok.lookup_sparse and communication is sok.communication
print("ok")
"""


def test_the_names_of_sok_2_under_its_own_name():
    assert "ok" in run_ranks(0, NAMES_OF_SOK_2).out


def test_the_graph_of_the_user_is_left_alone():
    with graph() as made:
        sok.init()
        assert not made.get_operations()
        made.finalize()
        sok.init()

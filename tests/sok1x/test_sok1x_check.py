"""`python -m sok1x.check`: what it reports of a sound installation, and of several that are not."""
import os
import sys

import numpy as np
import pytest
import tensorflow
import tensorflow2_skips
from ranks import run_ranks

from sok1x import check

CHECK = "import runpy; runpy.run_module('sok1x.check', run_name='__main__')"
# Horovod's import takes seconds, and these look at something else.
WITHOUT_HOROVOD = "import sys; sys.modules['horovod'] = None\n"


def lines_of(finished):
    """{title: (outcome, text)} of what rank 0 printed."""
    found = {}
    for line in finished.out.splitlines():
        if line[:6].strip() in ("ok", "-", "FAILED") and line[6:8] == "  ":
            found[line[8:23].strip()] = (line[:6].strip(), line[24:])
    return found


def test_alone():
    finished = run_ranks(0, CHECK, env={"SOK1X_NUM_THREADS": "3"})
    found = lines_of(finished)
    assert finished.out.endswith("all is well\n")
    assert found["TensorFlow"] == ("ok", tensorflow.__version__)
    assert found["Horovod"] == ("ok", "0.28.1, built with MPI")
    assert found["launcher"][0] == "-" and found["settings"] == ("ok", "SOK1X_NUM_THREADS=3")
    assert found["threads"][1].startswith("3 a rank")
    assert found["ranks"][1].startswith("rank 0 of 1") and "MPI: not used" in finished.out
    assert found["exchange"][0] == "ok" and "every value right" in found["exchange"][1]


def test_two_ranks_and_only_the_first_prints():
    finished = run_ranks(2, WITHOUT_HOROVOD + CHECK)
    found = lines_of(finished)
    assert finished.out.count("all is well") == 1 and finished.out.count("TensorFlow ") == 1
    assert found["launcher"] == ("ok", "Open MPI (mpiexec), 2 ranks")
    assert found["ranks"][1].startswith("rank 0 of 2") and "thread level: MULTIPLE" in finished.out
    assert found["exchange"][0] == "ok" and "16 keys over 2 ranks" in found["exchange"][1]
    assert found["Horovod"][0] == "-"


def test_what_it_expects_is_exact_on_many_ranks():
    for ranks in list(range(2, 70)) + [128, 251, 256, 753, 1024]:
        keys = np.arange(8 * ranks, dtype=np.int64) * 3 - 7
        of_ranks = [check._slopes(keys, rank, ranks) for rank in range(ranks)]
        exact = check.STEPS * sum(of_ranks)
        assert exact.min() > 0 and exact.max() < 2 ** 24  # so float32 holds each sum of these, in any order
        for rank in range(ranks):  # rows that change places, or gradients that come from another rank, are seen
            own = exact[keys % ranks == rank]
            assert len(set(own.tolist())) == len(own)
            assert rank == 0 or not np.array_equal(of_ranks[rank], of_ranks[rank - 1])


def test_under_horovodrun():
    horovodrun = os.path.join(os.path.dirname(sys.executable), "horovodrun")
    if not os.path.exists(horovodrun):
        pytest.skip("Horovod is not installed")
    finished = run_ranks(2, CHECK, launcher=[horovodrun, "--mpi", "-np", "2"], check=False)
    assert finished.code == 0, str(finished)
    assert "Open MPI (mpiexec), 2 ranks" in finished.out and "every value right" in finished.out


def test_missing_libraries():
    program = WITHOUT_HOROVOD + """
from sok1x.cuda_kernels import host
from sok1x.graph_ops.bridge import bridge
host.LIBRARY = bridge.PATH = "/nowhere/library.so"
""" + CHECK
    finished = run_ranks(0, program, check=False)
    found = lines_of(finished)
    assert finished.code == 1
    for title in ("host kernels", "op library"):
        assert found[title][0] == "FAILED" and "/nowhere/library.so" in finished.out
    assert finished.out.count("what to do:     'make build'") == 2
    failed = [title for title in found if found[title][0] == "FAILED"]
    assert failed in (["host kernels", "op library"], ["GPU kernels", "host kernels", "op library"])  # of a GPU, too
    assert "left out" in found["exchange"][1] and finished.out.endswith("failed: {}\n".format(", ".join(failed)))


@pytest.mark.parametrize("rank, said", [(None, "FAILED  mpi4py"), ("1", "rank 1: FAILED  mpi4py")])
def test_mpiexec_without_mpi4py(rank, said):
    program = WITHOUT_HOROVOD + """
import os
if {!r} in (None, os.environ["OMPI_COMM_WORLD_RANK"]):
    sys.modules["mpi4py"] = None
""".format(rank) + CHECK
    finished = run_ranks(2, program, check=False)
    assert finished.code != 0
    assert said in finished.out and "'pip install mpi4py'" in finished.out
    assert "every value right" not in finished.out


def test_launch_without_mpi_and_another_tensorflow():
    program = WITHOUT_HOROVOD + "import tensorflow\ntensorflow.__version__ = '2.4.0'\n" + CHECK
    finished = run_ranks(0, program, check=False, env={"HOROVOD_RANK": "0", "HOROVOD_SIZE": "2"})
    found = lines_of(finished)
    assert finished.code == 1
    assert found["launcher"][0] == "FAILED" and "horovodrun --mpi" in found["launcher"][1]
    assert found["TensorFlow"] == ("FAILED", "2.4.0 is installed, and sok1x is made for 1.15, 2.15 and 2.21")
    fitting = "2.15.1" if tensorflow2_skips.ON_TENSORFLOW_2 else "1.15.5"
    assert "what to do:     pip install 'tensorflow=={}'".format(fitting) in finished.out


def test_init_that_fails():
    finished = run_ranks(0, WITHOUT_HOROVOD + CHECK, check=False, env={"SOK1X_NUM_THREADS": "many"})
    found = lines_of(finished)
    assert finished.code == 1
    assert found["ranks"][0] == "FAILED" and "SOK1X_NUM_THREADS" in found["ranks"][1] and "many" in found["ranks"][1]


def test_values_that_come_back_wrong():
    program = WITHOUT_HOROVOD + """
import tensorflow.compat.v1 as tf
real = tf.train.GradientDescentOptimizer
class Twice(real):
    def __init__(self, rate):
        super().__init__(2 * rate)
tf.train.GradientDescentOptimizer = Twice
""" + CHECK
    finished = run_ranks(0, program, check=False)
    found = lines_of(finished)
    assert finished.code == 1
    assert found["exchange"][0] == "FAILED" and "8 of 8 rows came back wrong: key -7 got" in found["exchange"][1]

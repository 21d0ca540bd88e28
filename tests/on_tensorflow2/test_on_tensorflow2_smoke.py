"""For the smoke test on TensorFlow 2.21: the parts of tests/mpi/test_mpi_static.py that are about lookups."""
import os
import sys

import pytest
from ranks import run_ranks

PROGRAMS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "mpi")

pytestmark = pytest.mark.skipif(sys.version_info < (3, 12), reason="tests/mpi/test_mpi_static.py does this and more")


@pytest.mark.parametrize("ranks", [1, 2])
def test_lookup_sparse_and_its_training(ranks, seed):
    finished = run_ranks(ranks, os.path.join(PROGRAMS, "program_several.py"), seed, "program_static_lookup.py",
                         "program_zero_weights.py", "program_static_training.py", timeout=390)
    assert finished.out.splitlines().count("ok") == 3 * ranks, str(finished)

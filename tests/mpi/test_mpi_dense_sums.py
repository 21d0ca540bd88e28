"""Dense gradients' sums over ranks: what C++ and Python make of them is the same."""
import os

import pytest
from ranks import run_ranks

HERE = os.path.dirname(os.path.abspath(__file__))


@pytest.mark.parametrize("ranks", [2, 3])
def test_sums_of_dense_tensors(ranks, seed):
    finished = run_ranks(ranks, os.path.join(HERE, "program_dense_sums.py"), seed, timeout=240)
    assert finished.out.count("sums ok") == ranks, str(finished)

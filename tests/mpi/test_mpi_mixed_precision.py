"""SOK 1.x's mixed-precision scripts, on one rank and, with Horovod, on two."""
import os

import pytest
from ranks import run_ranks


@pytest.mark.parametrize("ranks", [pytest.param(0, marks=pytest.mark.slow), 2])
def test_every_optimizer_and_layer_saved_and_restored(ranks, seed, tmp_path):
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "program_mixed_precision.py")
    assert run_ranks(ranks, program, seed, tmp_path).out.count("ok") == max(ranks, 1)

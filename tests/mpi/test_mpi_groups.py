"""Lookups and gradients of many tables run together: the same bits as one by one, on one rank and several."""
import os

import pytest
from ranks import run_ranks

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "program_groups.py")


@pytest.mark.parametrize("ranks", [0, 2, 4])
def test_together_as_one_by_one(ranks, seed):
    finished = run_ranks(ranks, PROGRAM, seed, timeout=240)
    assert finished.out.count("together") == max(1, ranks), str(finished)

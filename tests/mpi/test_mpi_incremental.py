"""Incremental dumps in hooks, over ranks: each has what it owns."""
import os

import pytest
from ranks import run_ranks


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_dumps_of_all_ranks(seed, ranks):
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "program_incremental.py")
    assert run_ranks(ranks, program, seed).out.count("ok") == ranks

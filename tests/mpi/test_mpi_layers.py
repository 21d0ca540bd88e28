"""Layers on any number of ranks, against models in NumPy and stock TensorFlow: several programs in one start."""
import os

import pytest
from ranks import run_ranks

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAMS = (
    "program_second_order.py",  # gradients of a lookup's gradient equal those of a plain variable
    "program_float16.py",       # float16 layers, and steps that all ranks skip for a loss scale
    "program_incremental.py",   # incremental dumps in hooks: each rank has what it owns
)


@pytest.mark.parametrize("ranks", [pytest.param(1, marks=pytest.mark.slow), 2, pytest.param(4, marks=pytest.mark.slow)])
def test_programs_that_check_themselves(ranks, seed):
    finished = run_ranks(ranks, os.path.join(HERE, "program_several.py"), seed, *PROGRAMS, timeout=390)
    for program in PROGRAMS:
        assert finished.out.count(program + " is over") == ranks, str(finished)
    assert finished.out.count("ok") == ranks * len(PROGRAMS), str(finished)

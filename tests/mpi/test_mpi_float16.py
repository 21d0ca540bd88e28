"""float16 layers and loss scales on several ranks."""
import os

import pytest
from ranks import run_ranks


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_float16_layers_and_steps_that_all_ranks_skip(ranks, seed):
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "program_float16.py")
    assert run_ranks(ranks, program, seed).out.count("ok") == ranks

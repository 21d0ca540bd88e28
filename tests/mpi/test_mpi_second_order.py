"""Gradients of a lookup's gradient, on any number of ranks."""
import os

import pytest
from ranks import run_ranks

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "program_second_order.py")


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_second_order_equals_a_plain_variables(ranks, seed):
    assert run_ranks(ranks, PROGRAM, seed, timeout=150).out.count("ok") == ranks

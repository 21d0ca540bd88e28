"""Collectives that become ready in another order on every rank."""
import os

import pytest
from ranks import run_ranks

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "program_order.py")


@pytest.mark.parametrize("steps", [20, pytest.param(500, marks=pytest.mark.slow)])
def test_eight_layers_in_any_order_on_four_ranks(steps, seed):
    finished = run_ranks(4, PROGRAM, steps, seed, timeout=240)
    assert finished.out.count("ok") == 4, str(finished)

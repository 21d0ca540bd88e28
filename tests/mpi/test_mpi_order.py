"""Collectives that become ready in another order on every rank."""
import os

from ranks import run_ranks

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "program_order.py")


def test_eight_layers_in_any_order_on_four_ranks(seed):
    finished = run_ranks(4, PROGRAM, 150, seed, timeout=240)
    assert finished.out.count("ok") == 4, str(finished)

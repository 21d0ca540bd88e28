"""Lookups that are functions change no table where Keras or an Estimator evaluates, or where they are told so."""
import os

from ranks import run_ranks

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "program_lookup_training.py")


def test_in_a_graph():
    assert run_ranks(0, PROGRAM, timeout=300).out.endswith("ok\n")

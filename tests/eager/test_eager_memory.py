"""Nothing grows with calls in eager execution."""
import os

import pytest
import tensorflow
from ranks import run_ranks

pytestmark = pytest.mark.skipif(tensorflow.__version__.startswith("1."), reason="TensorFlow 1.15 works in graphs")


def test_calls_leave_nothing_behind(tmp_path):
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "program_memory.py")
    assert "ok" in run_ranks(1, program, tmp_path, timeout=300).out


def test_slots_are_collected_whoever_holds_a_lock():
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "program_collected_slots.py")
    assert "ok" in run_ranks(1, program, timeout=120).out

"""Eager tables have variables and host memory of their own, whatever others are called."""
import os

import pytest
import tensorflow
from ranks import run_ranks

pytestmark = pytest.mark.skipif(tensorflow.__version__.startswith("1."), reason="TensorFlow 1.15 works in graphs")
PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "program_names.py")


@pytest.mark.parametrize("what", ["growth", "memory"])
def test_tables_that_are_called_like_what_others_have(what):
    assert "ok" in run_ranks(1, PROGRAM, what, timeout=120).out

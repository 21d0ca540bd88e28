"""Checkpoints that a graph has saved, restored in eager execution."""
import os

import pytest
import tensorflow
from ranks import run_ranks

pytestmark = pytest.mark.skipif(tensorflow.__version__.startswith("1."), reason="TensorFlow 1.15 works in graphs")
HERE = os.path.dirname(os.path.abspath(__file__))


@pytest.mark.parametrize("ranks", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_what_a_graph_has_saved_goes_on_eagerly(ranks, seed, tmp_path):
    finished = run_ranks(ranks, os.path.join(HERE, "program_from_graph.py"), seed, tmp_path, timeout=300, check=False)
    assert finished.code == 0 and finished.out.count("ok") == ranks, str(finished)

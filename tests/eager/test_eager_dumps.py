"""incremental_model_dump in eager execution and between tf.functions."""
import os

import pytest
import tensorflow
from ranks import run_ranks

pytestmark = pytest.mark.skipif(tensorflow.__version__.startswith("1."), reason="TensorFlow 1.15 works in graphs")
HERE = os.path.dirname(os.path.abspath(__file__))


@pytest.mark.parametrize("ranks", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_what_changed_since_a_time(ranks, seed):
    finished = run_ranks(ranks, os.path.join(HERE, "program_model_dump.py"), seed, timeout=300)
    assert finished.out.count("ok") == ranks

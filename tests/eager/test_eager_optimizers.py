"""sok1x's own optimizers in eager execution and in tf.functions."""
import os

import pytest
import tensorflow
from ranks import run_ranks

pytestmark = pytest.mark.skipif(tensorflow.__version__.startswith("1."), reason="TensorFlow 1.15 works in graphs")
HERE = os.path.dirname(os.path.abspath(__file__))


@pytest.mark.parametrize("ranks", [1, 2])
def test_ten_steps_of_our_own_optimizers(ranks, seed):
    finished = run_ranks(ranks, os.path.join(HERE, "program_adams.py"), seed, timeout=300)
    assert finished.out.count("ok") == ranks

"""tf.distribute's strategies with one replica in each process, on one rank and on several."""
import os

import pytest
import tensorflow
from ranks import run_ranks

pytestmark = pytest.mark.skipif(tensorflow.__version__.startswith("1."), reason="TensorFlow 1.15 works in graphs")
HERE = os.path.dirname(os.path.abspath(__file__))


@pytest.mark.parametrize("ranks", [1, 2])
def test_tables_in_a_strategys_scope_train_as_without(ranks, seed):
    finished = run_ranks(ranks, os.path.join(HERE, "program_strategies.py"), seed, timeout=300)
    assert finished.out.count("ok") == ranks

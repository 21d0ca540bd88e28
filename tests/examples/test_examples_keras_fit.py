"""The Keras example on one rank and on two: the loss falls, evaluation inserts nothing, dense replicas are equal."""
import os

import pytest
from ranks import run_ranks

HERE = os.path.dirname(os.path.abspath(__file__))
EXAMPLES = os.path.join(os.path.dirname(os.path.dirname(HERE)), "legacy_examples")


@pytest.mark.parametrize("ranks", [0, 2])
def test_fit_evaluate_and_predict(ranks):
    out = run_ranks(ranks, os.path.join(HERE, "program_keras_fit.py"), EXAMPLES, timeout=240).out
    assert out.count("ok") == max(ranks, 1) and out.count("val_auc") == 2, out  # rank 0 alone reports

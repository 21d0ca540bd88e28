"""Lookups with weights in eager execution, and the gradients to these; and the weights of Keras models in its files."""
import os

import pytest
import tensorflow
from ranks import run_ranks

pytestmark = pytest.mark.skipif(tensorflow.__version__.startswith("1."), reason="TensorFlow 1.15 works in graphs")
HERE = os.path.dirname(os.path.abspath(__file__))


@pytest.mark.parametrize("ranks", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_gradients_to_rows_and_weights_of_any_order(ranks, seed):
    finished = run_ranks(ranks, os.path.join(HERE, "program_weights.py"), seed, timeout=300)
    assert finished.out.count("ok") == ranks


@pytest.mark.parametrize("ranks", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_weights_of_keras_layers_are_whole_tables(ranks, tmp_path):
    finished = run_ranks(ranks, os.path.join(HERE, "program_keras_weights.py"), tmp_path, timeout=300)
    assert finished.out.count("ok") == ranks


def test_rows_without_their_keys_are_refused(tmp_path):
    finished = run_ranks(0, os.path.join(HERE, "program_rows_alone.py"), tmp_path, timeout=120)
    assert finished.out.count("ok") == 1


def test_models_of_one_rank_are_not_loaded_by_several(tmp_path):
    for ranks in (0, 2):
        finished = run_ranks(ranks, os.path.join(HERE, "program_load_model.py"), tmp_path, timeout=120)
        assert finished.out.count("ok") == max(1, ranks)

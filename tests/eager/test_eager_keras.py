"""Keras' ways with a model's weights, and tapes' with a table's gradient, on one rank and on two."""
import os
import re

import pytest
import tensorflow
from ranks import run_ranks

pytestmark = pytest.mark.skipif(tensorflow.__version__.startswith("1."), reason="TensorFlow 1.15 works in graphs")
HERE = os.path.dirname(os.path.abspath(__file__))


@pytest.mark.parametrize("ranks", [1, 2])
def test_weights_whole_models_and_jacobians(ranks, tmp_path):
    finished = run_ranks(ranks, os.path.join(HERE, "program_keras.py"), tmp_path, timeout=300)
    assert finished.out.count("ok") == ranks


@pytest.mark.parametrize("ranks", [1, 2])
def test_averages_in_loops_of_steps(ranks, seed):
    finished = run_ranks(ranks, os.path.join(HERE, "program_averages.py"), seed, timeout=300)
    assert finished.out.count("ok") == ranks


@pytest.mark.parametrize("ranks", [1, 2])
def test_what_fit_makes_in_its_first_step_is_equal_on_all_ranks_before_it(ranks):
    finished = run_ranks(ranks, os.path.join(HERE, "program_first_fit.py"), timeout=300)
    assert finished.out.count("ok") == ranks
    kernels = re.findall("kernel .*", finished.out)
    assert len(kernels) == 8 * ranks == ranks * len(set(kernels)), kernels


def test_lookups_that_are_no_layers_follow_the_model_around_them():
    program = os.path.join(os.path.dirname(HERE), "sok1x", "program_lookup_training.py")
    assert run_ranks(0, program, "eager", timeout=300).out.endswith("ok\n")

"""TensorFlow's own loss scaling, and steps in branches: all ranks take a step, or none does."""
import os

import pytest
import tensorflow as tf
from ranks import run_ranks

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.path.join(HERE, "program_tensorflow_loss_scaling.py")


def test_all_ranks_skip_a_step_that_one_cannot_take():
    finished = run_ranks(2, PROGRAM, timeout=120)
    assert finished.out.count(" ok") == 2, str(finished)


@pytest.mark.skipif(not tf.__version__.startswith("1."), reason="TensorFlow 2 has no contrib")
def test_steps_left_out_for_gradients_of_zeros_are_those_of_one_process(seed):
    finished = run_ranks(2, os.path.join(HERE, "program_zero_gradients.py"), seed, timeout=300)
    assert finished.out.count(" ok") == 2, str(finished)

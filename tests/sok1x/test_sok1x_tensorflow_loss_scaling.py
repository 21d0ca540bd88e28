"""TensorFlow's own loss scaling, and steps in branches: all ranks take a step, or none does."""
import os

from ranks import run_ranks

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "program_tensorflow_loss_scaling.py")


def test_all_ranks_skip_a_step_that_one_cannot_take():
    finished = run_ranks(2, PROGRAM, timeout=120)
    assert finished.out.count(" ok") == 2, str(finished)

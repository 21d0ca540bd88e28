"""Slots of tables that grow, which a tf.train.Checkpoint restores in eager execution."""
import os

import pytest
import tensorflow
from ranks import run_ranks

pytestmark = pytest.mark.skipif(tensorflow.__version__.startswith("1."), reason="TensorFlow 1.15 works in graphs")
HERE = os.path.dirname(os.path.abspath(__file__))


@pytest.mark.parametrize("ranks", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_slots_are_restored_before_the_first_step(ranks, seed, tmp_path):
    finished = run_ranks(ranks, os.path.join(HERE, "program_restored_slots.py"), seed, tmp_path, timeout=900)
    assert finished.out.count("ok") == ranks


def test_rows_that_are_not_restored_begin_anew(tmp_path):
    """Of a table without index, and of one whose rows lie there from the start."""
    for stage in ("save", "restore"):
        finished = run_ranks(1, os.path.join(HERE, "program_rows_anew.py"), tmp_path, stage)
        assert finished.out.count("ok") == 1

"""tf.train.Checkpoint of eager programs with tables, on one rank and on several."""
import os

import pytest
import tensorflow
from ranks import run_ranks

pytestmark = pytest.mark.skipif(tensorflow.__version__.startswith("1."), reason="TensorFlow 1.15 works in graphs")
HERE = os.path.dirname(os.path.abspath(__file__))


def test_checkpoints_of_objects_on_the_same_number_of_ranks_and_another(seed, tmp_path):
    for ranks, former in ((2, []), (1, ["2"]), (2, ["1"])):
        finished = run_ranks(ranks, os.path.join(HERE, "program_objects.py"), seed, tmp_path, *former, timeout=300)
        assert finished.out.count("ok") == ranks

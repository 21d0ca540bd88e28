"""DLRM learns on two ranks from uneven files, goes on from its checkpoint on one, and its export predicts the same."""
import os
import re
import sys

import pytest
from ranks import run_ranks

EXAMPLES = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "legacy_examples")
SCORE = re.compile(r"^step (\d+): test AUC ([\d.]+) of (\d+) samples$", re.MULTILINE)
EXPORTED = re.compile(r"^exported to \S+: (\d+) samples scored by stock TensorFlow differ by at most ([\d.e+-]+)$",
                      re.MULTILINE)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Three train files and one test file, so that of two ranks one has far more than the other."""
    sys.path.insert(0, EXAMPLES)
    try:
        import criteo
    finally:
        sys.path.remove(EXAMPLES)
    return criteo.make(str(tmp_path_factory.mktemp("dlrm") / "data"), (3000, 1000, 500), (2000,))


def run(ranks, data, *options):
    finished = run_ranks(ranks, os.path.join(EXAMPLES, "dlrm.py"), "--data", data, "--batch_size", 200,
                         "--learning_rate", 0.01, *options, timeout=300)
    (step, area, samples), = SCORE.findall(finished.out)
    assert int(samples) == 2000, "of all ranks' test samples, each once"
    return finished.out, int(step), float(area)


def test_it_learns_goes_on_and_is_exported(data, tmp_path):
    """Rank 0 has 3500 samples, rank 1 has 1000: 35 steps of up to 100 on each rank."""
    saved = ("--checkpoint_dir", tmp_path / "saved", "--save_steps", 20, "--log_every", 10)
    out, step, area = run(2, data, *saved, "--export", tmp_path / "model" / "1")
    assert step == 35 and area >= 0.68
    assert "epoch 1, step 30: loss " in out
    (samples, off), = EXPORTED.findall(out)
    assert int(samples) == 100 and float(off) <= 1e-6
    # All of it was trained on, by two ranks; so one rank begins its second epoch after step 35 of 46.
    out, step, again = run(1, data, *saved, "--epochs", 2, "--steps", 36)
    assert "going on after step 35" in out and step == 36 and again == pytest.approx(area, abs=0.05)

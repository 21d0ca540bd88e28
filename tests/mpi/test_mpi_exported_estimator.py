"""An Estimator's export between its trainings, on several ranks."""
import os

import pytest
from ranks import run_ranks

HERE = os.path.dirname(os.path.abspath(__file__))


@pytest.mark.parametrize("ranks", [0, 2])
def test_ranks_stay_together(ranks, tmp_path):
    finished = run_ranks(ranks, os.path.join(HERE, "program_exported_estimator.py"), tmp_path, timeout=200)
    assert finished.out.count("ok") == max(1, ranks), str(finished)

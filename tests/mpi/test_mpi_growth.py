"""Tables that grow: the bits of tables that were large from the start, and nothing lost where memory ends."""
import os

import pytest
from ranks import run_ranks

HERE = os.path.dirname(os.path.abspath(__file__))


@pytest.mark.parametrize("ranks", [pytest.param(0, marks=pytest.mark.slow), 2])
def test_growth_under_every_optimizer(ranks, seed):
    finished = run_ranks(ranks, os.path.join(HERE, "program_growth.py"), seed, timeout=300)
    assert finished.out.count(" ok") == max(1, ranks), str(finished)


@pytest.mark.parametrize("ranks", [0, 2])
def test_dynamic_variables(ranks, seed):
    finished = run_ranks(ranks, os.path.join(HERE, "program_dynamic.py"), seed, timeout=240)
    assert finished.out.count(" ok") == max(1, ranks), str(finished)


@pytest.mark.parametrize("ranks", [0, 2])
def test_each_ranks_given_rows_stay_its_own(ranks, tmp_path):
    finished = run_ranks(ranks, os.path.join(HERE, "program_given_rows.py"), tmp_path, timeout=240)
    assert finished.out.count("ok") == max(1, ranks), str(finished)

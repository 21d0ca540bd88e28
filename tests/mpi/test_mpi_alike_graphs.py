"""Sessions on graphs that are alike, which the ranks begin in different orders."""
import os

import pytest
from ranks import run_ranks

HERE = os.path.dirname(os.path.abspath(__file__))


@pytest.mark.parametrize("ranks", [2, 3])
def test_threads_may_begin_them_in_any_order(ranks):
    finished = run_ranks(ranks, os.path.join(HERE, "program_alike_graphs.py"), timeout=120)
    assert finished.out.count("ok") == ranks, str(finished)

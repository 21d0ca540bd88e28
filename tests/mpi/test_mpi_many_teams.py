"""Jobs of more different sets of ops than ranks say to each other for good."""
import os

import pytest
from ranks import run_ranks

HERE = os.path.dirname(os.path.abspath(__file__))


@pytest.mark.slow
def test_more_sets_of_ops_than_are_remembered():
    finished = run_ranks(2, os.path.join(HERE, "program_many_teams.py"), timeout=900)
    assert finished.out.count("ok") == 2, str(finished)

"""The memory that lookups state is the memory that they take."""
import os

import pytest
from ranks import run_ranks


@pytest.mark.parametrize("ranks", [1, 3])
def test_memory_of_a_lookup_is_as_stated(ranks):
    finished = run_ranks(ranks, os.path.join(os.path.dirname(os.path.abspath(__file__)), "program_peak.py"))
    assert finished.out.count("float32 ok") == finished.out.count("float16 ok") == ranks

"""Tables that forget against a model in NumPy, through random operations, bit for bit; and what goes wrong in them."""
import os

import pytest
from ranks import run_ranks

HERE = os.path.dirname(os.path.abspath(__file__))


@pytest.mark.parametrize("ranks, operations", [(0, 2500), (2, 600), (4, 200)])
def test_a_model_of_the_whole_table_follows(ranks, operations, seed):
    finished = run_ranks(ranks, os.path.join(HERE, "program_forgetting.py"), seed, operations, timeout=600)
    assert finished.out.count("followed") == max(1, ranks), str(finished)


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [0, 2, 4])
def test_a_model_of_the_whole_table_follows_for_long(ranks, seed):
    finished = run_ranks(ranks, os.path.join(HERE, "program_forgetting.py"), seed, 10 ** 5, 2, timeout=14400)
    assert finished.out.count("followed") == max(1, ranks), str(finished)

"""Lookups and gradients of many tables run together: the same bits as one by one, on one rank and several."""
import os

import pytest
from ranks import EQUAL_BITS, run_ranks

HERE = os.path.dirname(os.path.abspath(__file__))


@pytest.mark.parametrize("ranks", [0, 2, 4])
def test_together_as_one_by_one(ranks, seed):
    # More than two ranks tell each other counts themselves, as more than 8 do.
    finished = run_ranks(ranks, os.path.join(HERE, "program_groups.py"), seed, timeout=900,
                         env=dict({"SOK1X_WHOLE_HEADERS": "2"}, **EQUAL_BITS))
    assert finished.out.count("together") == max(1, ranks), str(finished)


@pytest.mark.parametrize("ranks", [pytest.param(0, marks=pytest.mark.slow), 2])
def test_members_that_fail_or_differ(ranks):
    finished = run_ranks(ranks, os.path.join(HERE, "program_groups_faults.py"), timeout=300)
    assert finished.out.count(" ok") == max(1, ranks), str(finished)


@pytest.mark.parametrize("ranks", [0, 2])
def test_work_does_not_grow_with_tables_nor_memory_with_steps(ranks):
    finished = run_ranks(ranks, os.path.join(HERE, "program_groups_work.py"), timeout=900)
    assert finished.out.count(" ok") == max(1, ranks), str(finished)


def test_groups_given_up_in_threads_and_in_loops():
    finished = run_ranks(2, os.path.join(HERE, "program_groups_in_flight.py"), timeout=900)
    assert finished.out.count(" ok") == 2, str(finished)

"""The same ops in flight several times, and graphs that only some ranks have: right values on several ranks."""
import os

import pytest
from ranks import run_ranks

HERE = os.path.dirname(os.path.abspath(__file__))


@pytest.mark.parametrize("ranks", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_loops_threads_and_sessions(ranks, seed):
    run_ranks(ranks, os.path.join(HERE, "program_in_flight.py"), seed % 10 ** 6, timeout=240,
              env={"SOK1X_WHOLE_HEADERS": "2"})


def test_graphs_that_some_ranks_have_alone_and_steps_that_fail(tmp_path, seed):
    finished = run_ranks(2, os.path.join(HERE, "program_graphs.py"), tmp_path, seed % 10 ** 6, timeout=240)
    assert finished.out.count("ok") == 2, str(finished)


def test_gradients_that_are_looked_at_while_another_thread_trains():
    finished = run_ranks(2, os.path.join(HERE, "program_looked_at.py"), timeout=120)
    assert finished.out.count("ok") == 2, str(finished)

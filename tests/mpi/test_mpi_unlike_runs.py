"""Ranks whose session.runs differ: either they find together, or each is told; nothing is half a step."""
import os

import pytest
from ranks import run_ranks

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "program_unlike_runs.py")
HEADERS = pytest.mark.parametrize("headers", [{}, {"SOK1X_WHOLE_HEADERS": "1"}], ids=["whole_headers", "short_headers"])


@HEADERS
@pytest.mark.parametrize("fuse", ["1", "0"])
def test_bags_that_one_rank_evaluates_and_another_has_beside_a_step(headers, fuse):
    """Where an exchange may be chosen, no rank chooses one that another, which evaluates, does not go by."""
    finished = run_ranks(2, PROGRAM, "cut_otherwise", "auto", timeout=120,
                         env=dict(headers, SOK1X_FUSE=fuse, SOK1X_DEADLOCK_SECONDS="5"))
    assert finished.out.count(": ok") == 2, str(finished)


@HEADERS
@pytest.mark.parametrize("exchange", ["auto", "all2all"])
def test_a_rank_that_evaluates_where_another_trains_is_told(headers, exchange):
    finished = run_ranks(2, PROGRAM, "evaluates", exchange, timeout=120, check=False,
                         env=dict(headers, SOK1X_DEADLOCK_SECONDS="3"))
    assert finished.code != 0 and ": ok" not in finished.out, str(finished)
    assert "every rank waits for an op that another rank does not run" in finished.err, str(finished)


@pytest.mark.parametrize("case, optimizer", [
    *[("looks", of) for of in ("adam", "momentum", "dense", "dense_adagrad", "in_a_cond")],
    *[("looks_beside", of) for of in ("sgd", "adam", "dense")]])
def test_gradients_that_are_looked_at_are_not_those_of_a_step(case, optimizer):
    """However an optimizer moves rows: a step of one rank alone would be half a step, without a word."""
    finished = run_ranks(2, PROGRAM, case, "all2all", optimizer, timeout=120, check=False,
                         env={"SOK1X_DEADLOCK_SECONDS": "3"})
    assert finished.code != 0 and ": ok" not in finished.out, str(finished)
    assert "would be half a step" in finished.err, str(finished)

"""The communicators on 1, 2 and 4 ranks; the checks are in ranks_communicator.py."""
import os

import pytest
from ranks import run_ranks

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ranks_communicator.py")


@pytest.mark.parametrize("ranks", [0, 1, 2, 4])
def test_exchanges_match_numpy(ranks, seed):
    """`ranks=0`: no launcher."""
    done = run_ranks(ranks, PROGRAM, seed, timeout=100)
    assert sorted(done.out.split("\n")) == [""] + [
        "rank {} of {} fine".format(rank, max(1, ranks)) for rank in range(max(1, ranks))]

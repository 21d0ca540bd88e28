"""The communicators on 1, 2 and 4 ranks, on host memory and on GPUs; the checks are in ranks_communicator.py."""
import os

import pytest
from at_once import job
from ranks import run_ranks

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ranks_communicator.py")
BY = {"host": "host", "nccl": "NCCL", "staged": "MPI"}


@pytest.mark.parametrize("ranks", [0, 1, 2, 4])
@job(lambda ranks, way, seed: run_ranks(ranks, PROGRAM, seed, timeout=100, fresh=True, env=way.env(ranks)))
def test_exchanges_match_numpy(ranks, way, ended):
    """`ranks=0`: no launcher."""
    done = ended()
    by = BY[way.name] if ranks > 1 or way.name == "host" else "local"
    assert sorted(done.out.split("\n")) == [""] + [
        "rank {} of {} fine by {}".format(rank, max(1, ranks), by) for rank in range(max(1, ranks))]

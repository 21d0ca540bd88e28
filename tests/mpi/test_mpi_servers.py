"""Ranks that have servers of TensorFlow's, as scripts for parameter servers do: program_servers.py."""
import os
import socket

import pytest
from ranks import run_ranks

from sok1x.graph_ops.bridge.tensorflow_versions import V2

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "program_servers.py")


def ports():
    with socket.socket() as one, socket.socket() as other:
        for each in (one, other):
            each.bind(("localhost", 0))
        return "{},{}".format(one.getsockname()[1], other.getsockname()[1])


@pytest.mark.parametrize("joined", ["by a call", "by an op"])
def test_each_rank_on_its_own_task(joined):
    finished = run_ranks(2, PROGRAM, ports(), "own", joined, check=False, fresh=True)  # gRPC starts threads, and talks
    assert finished.code == 0 and "done-0" in finished.out and "done-1" in finished.out, str(finished)


@pytest.mark.parametrize("joined", ["by a call", pytest.param("by an op", marks=pytest.mark.slow)])
def test_all_ranks_on_the_first_task_are_refused(joined):
    """Rank 0's process would take the other's lookups for its own, and wait for that rank's for ever.

    TensorFlow 2 places each rank's ops in the process whose server has the session.
    """
    finished = run_ranks(2, PROGRAM, ports(), "anywhere", joined, check=False, timeout=120, fresh=True)
    if V2:
        assert finished.code == 0 and "done-0" in finished.out and "done-1" in finished.out, str(finished)
    else:
        assert finished.code != 0, str(finished)
        assert "got another process's session" in finished.err and "task:0" in finished.err, str(finished)

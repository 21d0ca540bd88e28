"""Ranks that have servers of TensorFlow's, as scripts for parameter servers do: program_servers.py."""
import contextlib
import os
import socket

import pytest
from ranks import run_ranks

from sok1x.graph_ops.bridge.tensorflow_versions import V2

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "program_servers.py")


@pytest.fixture
def ports():
    """Two ports for the servers, as text. They stay taken, by sockets that do not listen: else whatever asks for any
    port before the servers begin, seconds later, another test's ranks for one, may be given them."""
    with contextlib.ExitStack() as held:
        taken = [held.enter_context(socket.socket()) for _ in range(2)]
        for one in taken:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as gRPC's, which then may listen there
            one.bind(("localhost", 0))
        yield ",".join(str(one.getsockname()[1]) for one in taken)


@pytest.mark.parametrize("joined", ["by a call", "by an op"])
def test_each_rank_on_its_own_task(ports, joined):
    finished = run_ranks(2, PROGRAM, ports, "own", joined, check=False, fresh=True)  # gRPC starts threads, and talks
    assert finished.code == 0 and "done-0" in finished.out and "done-1" in finished.out, str(finished)


@pytest.mark.parametrize("joined", ["by a call", pytest.param("by an op", marks=pytest.mark.slow)])
def test_all_ranks_on_the_first_task_are_refused(ports, joined):
    """Rank 0's process would take the other's lookups for its own, and wait for that rank's for ever.

    TensorFlow 2 places each rank's ops in the process whose server has the session.
    """
    finished = run_ranks(2, PROGRAM, ports, "anywhere", joined, check=False, timeout=120, fresh=True)
    if V2:
        assert finished.code == 0 and "done-0" in finished.out and "done-1" in finished.out, str(finished)
    else:
        assert finished.code != 0, str(finished)
        assert "got another process's session" in finished.err and "task:0" in finished.err, str(finished)

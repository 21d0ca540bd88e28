"""sok1x and Horovod in one process, whichever starts MPI; the scenarios are in ranks_horovod.py."""
import os
import re
import time

import pytest
from ranks import run_ranks

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ranks_horovod.py")
FIRST = pytest.mark.parametrize("first", ["horovod", "sok1x"])


@FIRST
def test_both_exchange_and_the_program_just_ends(first):
    done = run_ranks(2, PROGRAM, "clean", first, timeout=240)
    assert done.out.count("fine") == 2, str(done)


def test_horovod_shut_down_early_leaves_us_working_where_mpi_is_ours():
    done = run_ranks(2, PROGRAM, "shutdown", "sok1x", timeout=240)
    assert done.out.count("goes on") == 2, str(done)


def test_horovod_shut_down_early_takes_its_mpi_along_and_we_say_so():
    done = run_ranks(2, PROGRAM, "shutdown", "horovod", timeout=240, check=False)
    assert done.code != 0 and "0 refused: rank 0: MPI was finalised while ops still waited" in done.out, str(done)
    assert "If the program calls hvd.shutdown()" in done.out


@FIRST
def test_the_rank_that_shut_horovod_down_is_named_by_those_who_need_it(first):
    done = run_ranks(3, PROGRAM, "shut_down_by_one", first, timeout=240, check=False)
    assert done.code != 0 and done.out.count("needed: op 'op0' waits for rank 1 that left") == 2, str(done)
    # The others end without it: mpiexec may hang where one rank is inside.
    assert "in MPI_Finalize" not in done.out, str(done)


@FIRST
def test_a_rank_that_raises_while_another_waits_for_it_in_horovod(first):
    done = run_ranks(2, PROGRAM, "raises", first, timeout=240, check=False)
    took = time.monotonic() - float(re.search(r"trouble at ([0-9.]+)", done.out).group(1))
    assert done.code != 0 and took < 60, "{:.1f} s\n{}".format(took, done)
    assert "sok1x: rank 0: the job has failed: rank 1 failed: ValueError: boom beside horovod" in done.err, str(done)

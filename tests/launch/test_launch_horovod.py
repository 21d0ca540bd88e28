"""sok1x and Horovod in one process, whichever starts MPI; the scenarios are in ranks_horovod.py."""
import os
import re
import time

import pytest
from at_once import job
from ranks import run_ranks

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ranks_horovod.py")
FIRST = pytest.mark.parametrize("first", ["horovod", "sok1x"])


def run(ranks, scenario, *arguments, check=False):
    return run_ranks(ranks, PROGRAM, scenario, *arguments, timeout=240, check=check)


@FIRST
@job(lambda first: run(2, "clean", first, check=True))
def test_both_exchange_and_the_program_just_ends(first, ended):
    done = ended()
    assert done.out.count("fine") == 2, str(done)


@job(lambda: run(2, "shutdown", "sok1x", check=True))
def test_horovod_shut_down_early_leaves_us_working_where_mpi_is_ours(ended):
    done = ended()
    assert done.out.count("goes on") == 2, str(done)


@job(lambda: run(2, "shutdown", "horovod"))
def test_horovod_shut_down_early_takes_its_mpi_along_and_we_say_so(ended):
    done = ended()
    # Whoever is the first to end has said so: mpiexec may end the other before it does.
    assert done.code != 0 and re.search(r"^(\d) refused: rank \1: MPI was finalised while ops still waited", done.out,
                                        re.M), str(done)
    assert "If the program calls hvd.shutdown()" in done.out


@pytest.mark.parametrize("then", ["end", "stay"])
@FIRST
@job(lambda first, then: run(3, "shut_down_by_one", first, then))
def test_the_rank_that_shut_horovod_down_is_named_by_those_who_need_it(first, then, ended):
    done = ended()
    assert done.code != 0 and done.out.count("needed: op 'op0' waits for rank 1 that left") == 2, str(done)
    # All go there or none does: mpiexec may hang where one rank is inside of it and another ends. Which of them depends
    # on whether a program's end or Horovod's thread is looked at first, but where the programs take their time.
    finalised = {("horovod", "end"): (0, 3), ("horovod", "stay"): (3,)}.get((first, then), (0,))
    assert done.out.count("in MPI_Finalize") in finalised, str(done)


@pytest.mark.parametrize("tells", ["at once", "late"])
@FIRST
@job(lambda first, tells: (run(2, "raises", first, tells), time.monotonic()))
def test_a_rank_that_raises_while_another_waits_for_it_in_horovod(first, tells, ended):
    done, ended_at = ended()
    took = ended_at - float(re.search(r"trouble at ([0-9.]+)", done.out).group(1))
    assert done.code != 0 and took < 60, "{:.1f} s\n{}".format(took, done)
    assert "sok1x: rank 0: the job has failed: rank 1 failed: ValueError: boom beside horovod" in done.err, str(done)

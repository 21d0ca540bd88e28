"""Failures on one rank, on purpose: what the others do, and that nothing ever hangs."""
import os
import re

import once
import pytest
from at_once import job
from ranks import run_ranks

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "program_failures.py")
# Ranks that have met: but GPUs of a busy machine open seconds apart, and NCCL takes seconds to set them up.
ABORT_SECONDS = "20"  # ranks of a busy machine come to sok.Init seconds apart


def fail(case, ranks=2, timeout=240, **env):
    """Runs a case that must end, non-zero, by `timeout`: on a busy machine half of that is the start of TensorFlow.

    Ranks that are not ended sleep for 300 s. Returns what the case wrote.
    """
    finished = run_ranks(ranks, PROGRAM, case, timeout=timeout, env=env, check=False)
    assert finished.code != 0, str(finished)
    return finished


# The first, for it takes longest of those that run at the same time.
@job(lambda: fail("stops_feeding", SOK1X_STALL_SECONDS="1.5", SOK1X_ABORT_SECONDS=ABORT_SECONDS))
def test_a_rank_that_stops_feeding_is_named(ended):
    finished = ended()
    stalls = [line for line in finished.err.splitlines() if "sok1x" in line and "wait" in line]
    assert any("All2All" in line or "dense" in line for line in stalls), str(finished)
    assert re.search(r"rank[s]? \[?1", finished.err), str(finished)


@pytest.mark.parametrize("case, ranks", [("raises", 3), ("raises_while_others_sleep", 2)])
@job(lambda case, ranks: fail(case, ranks, SOK1X_GRACE_SECONDS="2"))
def test_a_rank_that_raises_ends_all_with_its_message(case, ranks, ended):
    finished = ended()
    assert finished.err.count("rank 1 failed: ValueError: made to fail on purpose") >= ranks - 1, str(finished)
    assert "Traceback" in finished.err, str(finished)


@job(lambda: fail("killed"))
def test_a_killed_rank_ends_the_job(ended):
    ended()


@job(lambda: fail("finalises"))
def test_ranks_that_go_on_after_mpi_was_finalised_on_one(ended):
    finished = ended()
    assert "waits for rank 1 that left: " in finished.err and "MPI.Finalize()" in finished.err, str(finished)


@pytest.mark.parametrize("case", ["different_layers", "fewer_layers"])
@job(lambda case: fail(case))
def test_ranks_that_built_different_layers(case, ended):
    finished = ended()
    if case == "different_layers":
        assert "D=4" in finished.err and "D=5" in finished.err, str(finished)
    else:
        assert "'EmbeddingVariable_1'" in finished.err, str(finished)
    assert "rank 0" in finished.err and "rank 1" in finished.err, str(finished)


@job(lambda: fail("never_meet", SOK1X_DEADLOCK_SECONDS="1.5"))
def test_ranks_that_can_never_meet_fail_by_themselves(ended):
    finished = ended()
    assert "every rank waits for an op that another rank does not run" in finished.err, str(finished)
    assert re.search("Rank 0 waits in op '[^']*/lookup', which rank 1 did not announce", finished.err), str(finished)
    assert re.search("Rank 1 waits in op '[^']*/lookup', which rank 0 did not announce", finished.err), str(finished)


def test_a_slow_rank_is_not_taken_for_one_that_never_comes():
    run_ranks(2, PROGRAM, "slow_is_not_stuck", env={"SOK1X_DEADLOCK_SECONDS": "0.75"})


def test_an_error_that_one_rank_survives():
    run_ranks(1, PROGRAM, "survives", "keys_beyond_their_type")


DIGEST = re.compile(r"\b[0-9a-f]{64}\b")  # only this: two ranks' lines may be printed into each other.


@pytest.fixture(scope="module")
def survived(tmp_path_factory):
    """The end of two ranks that have been through all that ranks survive, and then trained for a digest."""
    return once.made(tmp_path_factory, "mpi_survived", lambda folder: run_ranks(
        2, PROGRAM, "init_disagrees", "survives", "keys_beyond_their_type", "sessions_and_graphs", "checksum"))


@pytest.fixture(scope="module")
def ran_long(tmp_path_factory):
    """The end of two ranks that have trained for a digest, and then for many more steps."""
    return once.made(tmp_path_factory, "mpi_ran_long", lambda folder: run_ranks(
        2, PROGRAM, "checksum", "memory", timeout=120))


@pytest.mark.parametrize("case", ["init_disagrees", "survives", "keys_beyond_their_type",
                                  "sessions_and_graphs"])
def test_what_all_ranks_survive(case, survived):
    assert survived.out.count("{} done".format(case)) == 2, str(survived)


def test_the_same_run_ends_with_the_same_bits(survived, ran_long):
    """In another process, and whatever has run before it in the one."""
    runs = [sorted(DIGEST.findall(finished.out)) for finished in (survived, ran_long)]
    assert runs[0] == runs[1] and len(set(runs[0])) == 2, runs


# Of a thousand steps: each may leave less than a block of Python's, and less than a hundred bytes of anybody's. What is
# made once, as where Python runs a step for C++ for the first time, is none of all parts of the steps.
# Resident memory also has what nobody allocates by malloc; it comes in steps, of an arena of malloc's for example.
GROWTH = {"Python's blocks": 500, "bytes of malloc": 100000, "resident bytes": 2 << 20}


def expect_no_growth(finished):
    for rank in "01":
        found = re.findall(r"rank {} after (\d+) holds (\d+) (\d+) (\d+)".format(rank), finished.out)
        assert len(found) == 5, str(finished)
        steps, *columns = zip(*([int(number) for number in numbers] for numbers in found))
        for (what, most), held in zip(GROWTH.items(), columns):
            print("rank", rank, what, *held)
            grown = [held[-1] - held[0]]
            if not what.startswith("resident"):
                most *= (steps[1] - steps[0]) / 1000
                grown = [after - before for before, after in zip(held, held[1:])]
            assert min(grown) < most, (rank, what, held)


def test_steps_leave_no_memory_behind(ran_long):
    expect_no_growth(ran_long)


@pytest.mark.slow
def test_thousands_of_steps_leave_no_memory_behind():
    expect_no_growth(run_ranks(2, PROGRAM, "memory_of_many_steps", timeout=300))

"""Jobs whose GPUs cannot be connected, and exchanges on GPUs that fail, hang or lose a rank; see ranks_gpu.py."""
import os
import re
import time

import pytest
from at_once import job
from ranks import run_ranks
from ways import NCCL, stand_in

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ranks_gpu.py")
STAND_IN = pytest.mark.skipif(os.environ.get("SOK1X_TEST_DEVICE") == "gpu",
                              reason="only the stand-in can be told to make this trouble")
HINT = "(SOK1X_COMMUNICATOR=mpi sends what GPUs exchange through host memory, without NCCL)"


def fine(ranks, scenario, env, **options):
    done = run_ranks(ranks, PROGRAM, scenario, timeout=120, fresh=True, env=env, **options)
    assert done.code == 0 and done.out.count("fine") == ranks, str(done)
    return done


def refused(ranks, env):
    return run_ranks(ranks, PROGRAM, "refused", env=env, timeout=120, fresh=True)


def failing(ranks, scenario, env, within=60.0, **options):
    """The job must end non-zero within so many seconds of the line 'trouble at'."""
    done = run_ranks(ranks, PROGRAM, scenario, timeout=120, fresh=True, env=env, check=False, **options)
    ended = time.monotonic()
    assert done.code != 0 or "launcher" in options, str(done)
    took = ended - min(float(word) for word in re.findall(r"trouble at ([0-9.]+)", done.out))
    assert took < within, "{:.1f} s\n{}".format(took, done)
    return done


def everyone_said(done, ranks, text):
    for rank in ranks:
        assert re.search("^failed on {}: .*{}".format(rank, re.escape(text)), done.out, re.M), str(done)


@pytest.mark.parametrize("asked", ["auto", "mpi"])
@job(lambda asked: fine(2, "works", NCCL.env(2, SOK1X_COMMUNICATOR=asked)))
def test_nccl_is_taken_where_it_can_be(asked, ended):
    done = ended()
    if asked == "auto":
        assert len(re.findall(r"fine \d by NCCL \d+\.\d+\.\d+$", done.out, re.M)) == 2, str(done)
    else:
        assert done.out.count("by MPI through pinned host memory (SOK1X_COMMUNICATOR=mpi)") == 2, str(done)


WITHOUT_NCCL = pytest.mark.parametrize("more, reason", [
    ({"STAND_IN_GPU_SHARED": "1"}, "ranks 0 and 1 share a GPU"),
    ({"SOK1X_NCCL_LIBRARY": "/nowhere/libnccl.so.2"}, "on ranks 0-2, NCCL does not load (/nowhere/libnccl.so.2: ")])


@WITHOUT_NCCL
@STAND_IN
@job(lambda more: fine(3, "works", dict(stand_in(), **more), check=False))
def test_without_nccl_host_memory_is_used_and_it_is_said_once(more, reason, ended):
    done = ended()
    lines = done.err.strip().splitlines()
    assert len(lines) == 1 and lines[0].startswith("sok1x: " + reason), str(done)
    assert lines[0].endswith(": exchanges go through host memory (MPI)"), str(done)
    assert done.out.count("by MPI through pinned host memory (" + reason) == 3, str(done)


@WITHOUT_NCCL
@STAND_IN
@job(lambda more: refused(3, dict(stand_in(SOK1X_COMMUNICATOR="nccl"), **more)))
def test_without_nccl_those_who_asked_for_it_are_refused(more, reason, ended):
    done = ended()
    for rank in range(3):
        assert "refused on {} (9): SOK1X_COMMUNICATOR=nccl, but NCCL cannot be used: {}".format(
            rank, reason) in done.out, str(done)


@STAND_IN
@job(lambda: refused(2, stand_in(SOK1X_COMMUNICATOR="gloo")))
def test_a_wrong_setting_is_refused_on_all_ranks(ended):
    done = ended()
    assert done.out.count("(3): SOK1X_COMMUNICATOR must be auto, nccl or mpi; got 'gloo'") == 2, str(done)


@STAND_IN
@job(lambda: fine(3, "no_unique_id", stand_in()))
def test_an_id_that_cannot_be_had_is_an_error_on_all_ranks_and_can_be_tried_again(ended):
    done = ended()
    for rank in range(3):
        assert ("refused on {} (13): on rank 0, ncclGetUniqueId failed: unhandled system error (the stand-in was told "
                "to fail ncclGetUniqueId) {}".format(rank, HINT)) in done.out, str(done)


@STAND_IN
@job(lambda: failing(3, "no_init", stand_in(SOK1X_GRACE_SECONDS="2.5")))
def test_a_rank_that_cannot_join_fails_the_job(ended):
    """The others wait inside NCCL, and are ended there."""
    done = ended()
    assert "LaunchError: on rank 2, ncclCommInitRank failed: unhandled system error" in done.err, str(done)


@STAND_IN
@job(lambda: failing(3, "init_hangs", stand_in(SOK1X_GRACE_SECONDS="1")))
def test_a_rank_that_does_not_join_is_given_up(ended):
    done = ended()
    assert "ncclCommInitRank of op 'set-up of the GPUs' exchanges' has waited" in done.err, str(done)


@STAND_IN
@pytest.mark.parametrize("scenario", ["async_error", "abort_hangs"])
@job(lambda scenario: failing(3, scenario, stand_in()))
def test_an_asynchronous_error_ends_all_ranks(scenario, ended):
    done = ended()
    text = ("rank 1: NCCL reports an error in all_reduce of op 'op0': remote process exited or there was a network "
            "error")
    if scenario == "async_error":
        everyone_said(done, range(3), text)
    else:
        assert "sok1x: rank 1: the job has failed: " + text in done.err, str(done)
        assert "(this process did not end by itself in 5 s and is ended now)" in done.err


@STAND_IN
@job(lambda: failing(3, "dead", stand_in()))
def test_broken_connections_end_all_ranks(ended):
    done = ended()
    everyone_said(done, range(3), ": NCCL reports an error in all_reduce of op 'op0': remote process exited")


@job(lambda: failing(3, "killed", NCCL.env(3, SOK1X_ABORT_SECONDS="20"),
                     launcher=["mpiexec", "--oversubscribe", "--enable-recovery", "-np", "3"]))
def test_a_killed_rank_ends_all_even_if_the_launcher_does_not(ended):
    """NCCL may or may not notice; the time that was set is the last resort. Such an mpiexec says 0 whatever happens."""
    done = ended()
    everyone_said(done, (0, 2), "all_reduce of op 'op0'")


@STAND_IN
@job(lambda: failing(3, "call_fails", stand_in()))
def test_a_call_that_fails_ends_all_ranks(ended):
    done = ended()
    everyone_said(done, range(3), "all_reduce of op 'op0' failed on rank 2: ncclAllReduce failed: unhandled system "
                                  "error (the stand-in was told to fail ncclAllReduce)")


@job(lambda: failing(3, "raises", NCCL.env(3)))
def test_a_program_that_fails_while_others_executors_wait_for_it_on_their_gpus(ended):
    done = ended()
    everyone_said(done, (0, 2), "rank 1 failed: ValueError: boom on one")


@job(lambda: failing(3, "users_wait", NCCL.env(3)))
def test_a_program_that_fails_while_other_programs_wait_for_it_on_their_gpus(ended):
    done = ended()
    assert "let go on 0" in done.out and "let go on 2" in done.out, str(done)
    everyone_said(done, (0, 2), "rank 1 failed: ValueError: boom on one")


@job(lambda: failing(2, "never_joins", NCCL.env(2, SOK1X_STALL_SECONDS="1.5", SOK1X_ABORT_SECONDS="4",
                                                SOK1X_GRACE_SECONDS="2")))
def test_an_exchange_that_one_rank_never_joins_is_warned_about_and_given_up(ended):
    done = ended()
    assert re.search(r"^sok1x: rank 0: all_reduce of op 'op0' has waited \d+ s for other", done.err, re.M), str(done)
    assert re.search(r"rank 0: all_reduce of op 'op0' has waited ([4-9]|[1-9]\d+) s", done.err), str(done)
    assert "SOK1X_ABORT_SECONDS=4" in done.err, str(done)


@STAND_IN
@job(lambda: fine(2, "slow_gpu", stand_in()))
def test_a_gpu_that_takes_long_is_waited_for(ended):
    ended()


@STAND_IN
@job(lambda: (time.monotonic(), fine(2, "destroy_hangs", stand_in()), time.monotonic()))
def test_the_end_does_not_hang_in_nccl(ended):
    begun, _, ended_at = ended()
    assert ended_at - begun < 60

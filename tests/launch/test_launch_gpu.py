"""Jobs whose GPUs cannot be connected, and exchanges on GPUs that fail, hang or lose a rank; see ranks_gpu.py."""
import os
import re
import time

import pytest
from ranks import run_ranks

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ranks_gpu.py")
STAND_IN = pytest.mark.skipif(os.environ.get("SOK1X_TEST_DEVICE") == "gpu",
                              reason="only the stand-in can be told to make this trouble")
HINT = "(SOK1X_COMMUNICATOR=mpi sends what GPUs exchange through host memory, without NCCL)"


def fine(ranks, scenario, env, **options):
    done = run_ranks(ranks, PROGRAM, scenario, timeout=120, fresh=True, env=env, **options)
    assert done.code == 0 and done.out.count("fine") == ranks, str(done)
    return done


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


def test_nccl_is_taken_where_it_can_be(nccl):
    env = nccl.env(2, SOK1X_COMMUNICATOR="auto")
    done = fine(2, "works", env)
    assert len(re.findall(r"fine \d by NCCL \d+\.\d+\.\d+$", done.out, re.M)) == 2, str(done)
    done = fine(2, "works", dict(env, SOK1X_COMMUNICATOR="mpi"))
    assert done.out.count("by MPI through pinned host memory (SOK1X_COMMUNICATOR=mpi)") == 2, str(done)


@pytest.mark.parametrize("more, reason", [
    ({"STAND_IN_GPU_SHARED": "1"}, "ranks 0 and 1 share a GPU"),
    ({"SOK1X_NCCL_LIBRARY": "/nowhere/libnccl.so.2"}, "on ranks 0-2, NCCL does not load (/nowhere/libnccl.so.2: ")])
@STAND_IN
def test_without_nccl_host_memory_is_used_and_it_is_said_once(stand_in, more, reason):
    done = fine(3, "works", dict(stand_in, **more), check=False)
    lines = done.err.strip().splitlines()
    assert len(lines) == 1 and lines[0].startswith("sok1x: " + reason), str(done)
    assert lines[0].endswith(": exchanges go through host memory (MPI)"), str(done)
    assert done.out.count("by MPI through pinned host memory (" + reason) == 3, str(done)
    env = dict(stand_in, SOK1X_COMMUNICATOR="nccl", **more)
    done = run_ranks(3, PROGRAM, "refused", env=env, timeout=120, fresh=True)
    for rank in range(3):
        assert "refused on {} (9): SOK1X_COMMUNICATOR=nccl, but NCCL cannot be used: {}".format(
            rank, reason) in done.out, str(done)


@STAND_IN
def test_a_wrong_setting_is_refused_on_all_ranks(stand_in):
    done = run_ranks(2, PROGRAM, "refused", env=dict(stand_in, SOK1X_COMMUNICATOR="gloo"), timeout=120, fresh=True)
    assert done.out.count("(3): SOK1X_COMMUNICATOR must be auto, nccl or mpi; got 'gloo'") == 2, str(done)


@STAND_IN
def test_an_id_that_cannot_be_had_is_an_error_on_all_ranks_and_can_be_tried_again(stand_in):
    done = fine(3, "no_unique_id", stand_in)
    for rank in range(3):
        assert ("refused on {} (13): on rank 0, ncclGetUniqueId failed: unhandled system error (the stand-in was told "
                "to fail ncclGetUniqueId) {}".format(rank, HINT)) in done.out, str(done)


@STAND_IN
def test_a_rank_that_cannot_join_fails_the_job(stand_in):
    """The others wait inside NCCL, and are ended there."""
    done = failing(3, "no_init", dict(stand_in, SOK1X_GRACE_SECONDS="2.5"))
    assert "LaunchError: on rank 2, ncclCommInitRank failed: unhandled system error" in done.err, str(done)


@STAND_IN
def test_a_rank_that_does_not_join_is_given_up(stand_in):
    done = failing(3, "init_hangs", dict(stand_in, SOK1X_GRACE_SECONDS="1"))
    assert "ncclCommInitRank of op 'set-up of the GPUs' exchanges' has waited" in done.err, str(done)


@STAND_IN
@pytest.mark.parametrize("scenario", ["async_error", "abort_hangs"])
def test_an_asynchronous_error_ends_all_ranks(stand_in, scenario):
    done = failing(3, scenario, stand_in)
    text = ("rank 1: NCCL reports an error in all_reduce of op 'op0': remote process exited or there was a network "
            "error")
    if scenario == "async_error":
        everyone_said(done, range(3), text)
    else:
        assert "sok1x: rank 1: the job has failed: " + text in done.err, str(done)
        assert "(this process did not end by itself in 5 s and is ended now)" in done.err


@STAND_IN
def test_broken_connections_end_all_ranks(stand_in):
    done = failing(3, "dead", stand_in)
    everyone_said(done, range(3), ": NCCL reports an error in all_reduce of op 'op0': remote process exited")


def test_a_killed_rank_ends_all_even_if_the_launcher_does_not(nccl):
    """NCCL may or may not notice; the time that was set is the last resort. Such an mpiexec says 0 whatever happens."""
    launcher = ["mpiexec", "--oversubscribe", "--enable-recovery", "-np", "3"]
    done = failing(3, "killed", nccl.env(3, SOK1X_ABORT_SECONDS="20"), launcher=launcher)
    everyone_said(done, (0, 2), "all_reduce of op 'op0'")


@STAND_IN
def test_a_call_that_fails_ends_all_ranks(stand_in):
    done = failing(3, "call_fails", stand_in)
    everyone_said(done, range(3), "all_reduce of op 'op0' failed on rank 2: ncclAllReduce failed: unhandled system "
                                  "error (the stand-in was told to fail ncclAllReduce)")


def test_a_program_that_fails_while_others_executors_wait_for_it_on_their_gpus(nccl):
    done = failing(3, "raises", nccl.env(3))
    everyone_said(done, (0, 2), "rank 1 failed: ValueError: boom on one")


def test_a_program_that_fails_while_other_programs_wait_for_it_on_their_gpus(nccl):
    done = failing(3, "users_wait", nccl.env(3))
    assert "let go on 0" in done.out and "let go on 2" in done.out, str(done)
    everyone_said(done, (0, 2), "rank 1 failed: ValueError: boom on one")


def test_an_exchange_that_one_rank_never_joins_is_warned_about_and_given_up(nccl):
    env = nccl.env(2, SOK1X_STALL_SECONDS="1.5", SOK1X_ABORT_SECONDS="4", SOK1X_GRACE_SECONDS="2")
    done = failing(2, "never_joins", env)
    assert re.search(r"^sok1x: rank 0: all_reduce of op 'op0' has waited \d+ s for other", done.err, re.M), str(done)
    assert re.search(r"rank 0: all_reduce of op 'op0' has waited ([4-9]|[1-9]\d+) s", done.err), str(done)
    assert "SOK1X_ABORT_SECONDS=4" in done.err, str(done)


@STAND_IN
def test_a_gpu_that_takes_long_is_waited_for(stand_in):
    fine(2, "slow_gpu", stand_in)


@STAND_IN
def test_the_end_does_not_hang_in_nccl(stand_in):
    begin = time.monotonic()
    fine(2, "destroy_hangs", stand_in)
    assert time.monotonic() - begin < 60

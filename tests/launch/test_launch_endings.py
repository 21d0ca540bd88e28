"""Jobs that end well, end early, fail, stall or die; the scenarios are in ranks_endings.py and ranks_before_init.py."""
import os
import re
import signal
import threading
import time
import types

import pytest
from at_once import job
from ranks import run_ranks

from sok1x.launch import failure

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM, BEFORE_INIT = os.path.join(HERE, "ranks_endings.py"), os.path.join(HERE, "ranks_before_init.py")


def fine(ranks, scenario, *arguments, program=PROGRAM, **options):
    done = run_ranks(ranks, program, scenario, *arguments, timeout=240, fresh=True, **options)
    assert done.out.count("fine") == max(1, ranks), str(done)
    return done


def failing(ranks, scenario, *arguments, within=30.0, program=PROGRAM, **options):
    """The job must end non-zero within so many seconds of the line 'trouble at'."""
    done = run_ranks(ranks, program, scenario, *arguments, timeout=240, fresh=True, check=False, **options)
    ended = time.monotonic()
    assert done.code != 0, str(done)
    troubles = [float(word) for word in re.findall(r"trouble at ([0-9.]+)", done.out)]
    assert troubles, str(done)
    took = ended - min(troubles)
    assert took < within, "{:.1f} s\n{}".format(took, done)
    return done


@pytest.mark.parametrize("ranks", [0, 1, 2, 4])
@job(lambda ranks, way: fine(ranks, "healthy", env=way.env(ranks)))
def test_healthy(ranks, way, ended):
    done = ended()
    assert done.out.count("MPI" if ranks > 1 else "local") == max(1, ranks)


@job(lambda: fine(4, "disagree"))
def test_disagreeing_arguments_fail_on_all_ranks_and_can_be_tried_again(ended):
    ended()


@job(lambda: failing(4, "raises", env={"SOK1X_GRACE_SECONDS": "1.5"}))
def test_a_rank_that_raises_ends_all_with_its_message(ended):
    done = ended()
    text = "rank 1 failed: ValueError: boom on one"
    # Rank 0 by the error of its op; the others, busy elsewhere, when their grace is over.
    assert "LaunchError" in done.err and done.err.count(text) >= 3, str(done)
    for rank in (2, 3):
        assert "sok1x: rank {}: the job has failed: {}".format(rank, text) in done.err, str(done)
    assert "Traceback" in done.err and "ValueError: boom on one" in done.err


@job(lambda: failing(2, "raises_hardly"))
def test_a_rank_that_raises_what_cannot_be_said_ends_all_all_the_same(ended):
    done = ended()
    assert "LaunchError: rank 1 failed: Unprintable" in done.err and "OSError: the program's own hook" in done.err, str(
        done)


@job(lambda: failing(2, "raises_of_bytes"))
def test_a_rank_that_raises_of_bytes_that_are_no_text_ends_all_with_its_message(ended):
    done = ended()
    assert "LaunchError: rank 1 failed: ValueError: cannot read caf\\udce9" in done.err, str(done)


def test_the_alarm_clock_is_set_before_any_other_thread_runs():
    """Whoever keeps the GIL from now on is ended all the same."""
    monitor = failure.Monitor(types.SimpleNamespace(grace_seconds=1.5))
    monitor.failed(None)
    assert 4 < signal.alarm(0) <= 6


def test_streams_are_flushed_where_no_thread_can_be_started(monkeypatch):
    """As Python 3.12 ends."""
    def start(thread):
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(threading.Thread, "start", start)
    flushed = []
    monkeypatch.setattr(failure, "_flush", lambda: flushed.append(threading.current_thread()))
    failure._flush_for_a_moment()
    assert flushed == [threading.main_thread()]


@job(lambda way: failing(3, "caught", env=way.env(3)))
def test_ranks_that_catch_the_failure_still_end_non_zero(way, ended):
    done = ended()
    for rank in (0, 2):
        assert "caught on {}: rank 1 failed: KeyError: 'boom on one'".format(rank) in done.out, str(done)


@job(lambda way: failing(3, "killed", within=30.0, env=way.env(3)))
def test_a_killed_rank_ends_the_job(way, ended):
    ended()


@job(lambda way: fine(3, "early", 0.8, env=way.env(3)))
def test_a_rank_that_ends_early_harms_nobody(way, ended):
    ended()


@pytest.mark.parametrize("scenario, rank", [("deserted", 1), ("deserted_with_code", 1), ("deserted_by_rank_0", 0)])
@job(lambda scenario: failing(3, scenario))
def test_a_rank_that_left_is_named_by_those_who_need_it(scenario, rank, ended):
    done = ended()
    assert "op 'op0' waits for rank {} that left".format(rank) in done.err, str(done)
    assert "sok.EvenSteps(dataset)" in done.err, str(done)
    assert done.code == (3 if scenario == "deserted_with_code" else 1), str(done)


@pytest.mark.parametrize("ranks, gone, way", [(4, 2, "by_mpi4py"), (2, 0, "in_another_thread"), (3, 1, "in_flight"),
                                              (2, 1, "later")])
# Long enough that it is not the end of the one's grace that ends the others.
@job(lambda ranks, gone, way: failing(ranks, "finalised", gone, way, within=25, env={"SOK1X_GRACE_SECONDS": "30"}))
def test_a_rank_that_finalised_mpi_is_named_by_those_who_need_it(ranks, gone, way, ended):
    done = ended()
    own = "rank {}: MPI was finalised while ops still waited for other ranks.".format(gone)
    theirs = "op 'op0' waits for rank {} that left".format(gone)
    if way in ("in_flight", "later"):
        theirs = own
        assert way.replace("_", " ") + ": " + own in done.out, str(done)
    assert done.out.count("needed: " + theirs) == ranks - 1, str(done)


@job(lambda: failing(3, "finalised_at_last"))
def test_what_was_raised_before_mpi_was_finalised_is_shown(ended):
    """Nothing comes out of a `finally` in which MPI is finalised too early."""
    done = ended()
    assert "\nValueError: boom before the end\n" in done.err, str(done)
    assert done.err.count("op 'op0' waits for rank 1 that left") >= 2, str(done)


@job(lambda: fine(3, "finalised_unharmed"))
def test_a_rank_that_finalised_mpi_harms_nobody_who_is_done(ended):
    ended()


@job(lambda: fine(3, "in_flight"))
def test_ending_with_requests_in_flight(ended):
    ended()


@job(lambda: failing(4, "plans"))
def test_different_plans_are_shown(ended):
    done = ended()
    for part in ("ranks built different graphs", ": item [8, 4]", ": item [8, 5]", "Plan of rank"):
        assert part in done.err, str(done)


@job(lambda: fine(3, "stall", env={"SOK1X_STALL_SECONDS": "1.5", "TF_CONFIG": "{}"}, check=False))
def test_stall_warning_and_on_it_goes(ended):
    done = ended()
    assert done.code == 0 and "(is_chief=True). TF_CONFIG is set: " in done.err, str(done)
    for rank in (0, 2):
        assert re.search(r"^sok1x: rank {}: op 'op\d' has waited [1-9]\d* s for rank 1. Rank 1 has announced no op "
                         r"since 'op\d' was run \d+ s ago".format(rank), done.err, re.M), str(done)
    # On a loaded machine rank 1 may wait for the others too, in sok.Init and in steps.
    assert not re.search(r"^sok1x: rank 1: op .* for rank 1\.", done.err, re.M), str(done)


@job(lambda way: fine(2, "stuck_exchange", 3.5, env=way.env(2, SOK1X_STALL_SECONDS="1.5"), check=False))
def test_an_exchange_that_one_rank_does_not_finish_is_warned_about(way, ended):
    done = ended()
    assert done.code == 0, str(done)
    assert re.search(r"^sok1x: rank 0: all_reduce of op 'op0' has waited \d+ s for other", done.err, re.M), str(done)


@job(lambda way: failing(2, "stuck_exchange", 50, 3, env=way.env(2, SOK1X_GRACE_SECONDS="0.5")))
def test_an_exchange_that_one_rank_does_not_finish_is_given_up(way, ended):
    done = ended()
    assert "rank 0: all_reduce of op 'op0' has waited" in done.err and "SOK1X_ABORT_SECONDS=3" in done.err, str(done)


@pytest.mark.parametrize("scenario", ["never_init", "never_init_mpi_runs"])
@job(lambda scenario, folder: run_ranks(2, BEFORE_INIT, scenario, "3", folder, timeout=120, fresh=True, check=False,
                                        env={"SOK1X_STALL_SECONDS": "1"}))
def test_a_rank_that_runs_init_late_is_waited_for_with_a_warning(scenario, ended):
    done = ended()
    assert done.code == 0, str(done)
    assert re.search(r"sok1x: rank 0: sok.Init has waited [1-9]\d* s for ranks that have not run", done.err), str(done)


@pytest.mark.parametrize("scenario", ["never_init", "never_init_mpi_runs"])
@job(lambda scenario, folder: failing(2, scenario, "50", folder, program=BEFORE_INIT, env={"SOK1X_ABORT_SECONDS": "1"}))
def test_a_rank_that_never_runs_init_is_given_up(scenario, ended):
    done = ended()
    assert "not every rank has run it within 1 s (SOK1X_ABORT_SECONDS)" in done.err, str(done)


@job(lambda folder: run_ranks(3, BEFORE_INIT, "leave_before_init", folder, timeout=120, fresh=True, check=False))
def test_ranks_that_end_before_init_are_not_waited_for(ended):
    """mpiexec takes them for programs without MPI, unless it hears of MPI in another before it hears of their end."""
    done = ended()
    assert done.code == 1, str(done)
    ours = "sok1x: rank 1: sok.Init: not every rank will run it: ranks 0, 2 have ended before, with exit code 0."
    assert ours in done.err or "mpiexec has exited due to process rank" in done.err, str(done)


@job(lambda: failing(3, "raises_before_init", within=25, program=BEFORE_INIT))
def test_a_rank_that_raises_before_init_is_not_waited_for_though_mpi_keeps_it(ended):
    done = ended()
    assert "sok.Init: not every rank will run it: rank 1 ends without it" in done.err, str(done)
    assert "ValueError: boom before sok.Init" in done.err, str(done)
    # mpiexec crashes or hangs now and then if the others end while it waits in MPI_Finalize.
    assert "sok1x: rank 1 would wait for the others in MPI_Finalize, and is ended now" in done.err, str(done)
    assert done.code == 1, str(done)


ENDS_AFTER_THE_IMPORT = """
import time
from mpi4py import MPI
import sok1x
MPI.COMM_WORLD.Barrier()
if MPI.COMM_WORLD.rank == 1:
    print("trouble at", time.monotonic(), flush=True)
    raise SystemExit({code})
from sok1x import launch
launch.start({{}})
"""


@pytest.mark.parametrize("code", [0, 7])
@job(lambda code: failing(2, "", within=25, program=ENDS_AFTER_THE_IMPORT.format(code=code)))
def test_a_rank_that_ends_with_no_more_than_the_import_is_not_waited_for(code, ended):
    done = ended()
    assert done.code == 1 and "rank 1 ends without it" in done.err, str(done)


@job(lambda: run_ranks(2, BEFORE_INIT, "threads_disabled", timeout=120, fresh=True))
def test_mpi_without_thread_support_is_refused(ended):
    done = ended()
    assert done.out.count("MPI was initialised before sok.Init with MPI_THREAD_FUNNELED") == 2, str(done)


@pytest.mark.parametrize("scenario", ["mpi4py_first", "mpi4py_later"])
@job(lambda scenario: fine(2, scenario, program=BEFORE_INIT))
def test_beside_the_programs_own_mpi4py(scenario, ended):
    ended()


BARE = ["env", "-u", "OMPI_COMM_WORLD_RANK", "-u", "OMPI_COMM_WORLD_SIZE"]


@pytest.mark.parametrize("ranks", [1, 2])
@job(lambda ranks: run_ranks(ranks, PROGRAM, "healthy", timeout=120, fresh=True,
                             launcher=["mpiexec", "--oversubscribe", "-np", str(ranks)] + BARE))
def test_a_launcher_that_tells_no_size(ranks, ended):
    """PMIx gives a rank only: MPI is started and asked."""
    done = ended()
    assert done.out.count("fine") == ranks, str(done)


@job(lambda: run_ranks(0, PROGRAM, "healthy", timeout=120, fresh=True, check=False,
                       env={"PMI_RANK": "0", "PMI_SIZE": "3"}))
def test_a_launcher_of_another_mpi_is_noticed(ended):
    done = ended()
    assert done.code != 0 and "started 3 ranks, but the MPI library that mpi4py uses sees 1" in done.err, str(done)

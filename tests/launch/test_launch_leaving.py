"""What the coordinator does when ranks leave or fail; simulated ranks and a clock moved by hand."""
import threading

import pytest
from launch_simulation import Job, errors_of, ready

from sok1x.launch.errors import CANCELLED, FAILED_PRECONDITION, INTERNAL
from sok1x.launch.messages import Op


@pytest.mark.parametrize("gone", [0, 2])
def test_an_op_that_needs_a_rank_that_left_fails_the_job(gone):
    job = Job(3)
    for rank in range(3):
        job.ranks[rank].announce(ready(0))
    job.settle()
    job.ranks[gone].leaving.begin()
    assert job.ranks[gone].leaving.left
    job.settle(5.0)
    assert errors_of(job) == [None] * 3, "leaving alone harms nobody"
    others = [rank for rank in range(3) if rank != gone]
    for rank in others:
        job.ranks[rank].announce(ready(1, name="train"))
    job.settle(0.5)
    assert errors_of(job) == [None] * 3, "the others might be about to leave as well"
    job.settle(1.0)
    for rank in others:
        error = job.ranks[rank].job_error
        assert error.code == INTERNAL and error.rank == gone
        assert "op 'train' waits for rank {} that left".format(gone) in error.message
        assert "sok.EvenSteps(dataset)" in error.message
        assert [d.error.rank for d in job.heard[rank][1:]] == [gone]


def test_rank_0_left_and_gone_for_good():
    job = Job(3)
    job.ranks[0].leaving.begin()
    job.settle()
    for rank in (1, 2):
        assert job.ranks[rank].leaving.leader_left_at is not None
        job.ranks[rank].announce(ready(1, name="train"))
    job.settle(0.5, ranks=(1, 2))
    assert job.ranks[1].job_error is None
    job.settle(1.0, ranks=(1, 2))
    for rank in (1, 2):
        assert "op 'train' waits for rank 0 that left" in job.ranks[rank].job_error.message
        assert "sok.EvenSteps(dataset)" in job.ranks[rank].job_error.message
        assert len(job.heard[rank]) == 1


@pytest.mark.parametrize("gone", [0, 1])
def test_where_there_is_no_graph_the_advice_is_another(gone):
    """Of Keras' `fit`, which does not take sok.EvenSteps eagerly, too."""
    job, digest = Job(2), 2 ** 63 + 77
    job.ranks[gone].leaving.begin()
    job.settle()
    job.ranks[1 - gone].announce(ready(0, name="eager")._replace(op=Op(0, digest >> 1, digest)))
    job.settle(1.5, ranks=(1 - gone,))
    message = job.ranks[1 - gone].job_error.message
    assert "op 'eager' waits for rank {} that left".format(gone) in message
    assert "loop over sok.EvenSteps(dataset)" in message and "dataset.repeat().take(steps)" in message


def test_leaving_with_requests_in_flight_runs_what_was_decided_and_drops_the_rest():
    job = Job(2)
    for op in (0, 1):
        job.ranks[1].announce(ready(op))
    job.wires.deliver_all()
    job.ranks[0].announce(ready(0))
    job.poll(0)
    # Rank 0 has decided op 0, rank 1 does not know it yet.
    job.ranks[1].leaving.begin()
    assert not job.ranks[1].leaving.left
    job.settle()
    assert job.ranks[1].leaving.left
    run, dropped = job.heard[1]
    assert run.op.index == 0 and run.error is None and dropped.op.index == 1 and dropped.error.code == CANCELLED
    job.ranks[0].leaving.begin()
    job.settle(2.0)
    assert [c.leaving.all_left for c in job.ranks] == [True, True] and errors_of(job) == [None, None]


def test_nothing_is_announced_after_leaving():
    for size in (1, 2):
        job = Job(size)
        job.ranks[-1].leaving.begin()
        job.ranks[-1].announce(ready(0))
        job.settle()
        assert [d.error.code for d in job.heard[-1]] == [CANCELLED] and errors_of(job) == [None] * size


def test_all_leave_with_requests_in_flight_is_no_failure():
    job = Job(3)
    job.ranks[1].announce(ready(0))
    job.ranks[2].announce(ready(1))
    job.settle()
    for rank in range(3):
        job.ranks[rank].leaving.begin()
        job.settle(0.2)
    job.settle(5.0)
    assert errors_of(job) == [None] * 3 and all(c.leaving.all_left and c.leaving.left for c in job.ranks)


def test_a_rank_leaves_though_rank_0_does_not_answer():
    job = Job(2)
    job.ranks[1].announce(ready(0))
    job.ranks[1].leaving.begin()
    job.settle(1.0, ranks=(1,))
    assert not job.ranks[1].leaving.left
    job.settle(1.5, ranks=(1,))
    assert job.ranks[1].leaving.left and job.heard[1][0].error.code == CANCELLED


@pytest.mark.parametrize("failing, exits", [(0, ()), (0, (1,)), (2, (0, 2))])
def test_a_failure_on_one_rank_fails_all_others_with_its_message(failing, exits):
    job = Job(3)
    waiting = [rank for rank in range(3) if rank != failing]
    for rank in waiting:
        job.ranks[rank].announce(ready(0))
    job.settle()
    # As an excepthook does it: from another thread than the executor's.
    thread = threading.Thread(target=job.ranks[failing].fail_job, args=("rank failed: ValueError: boom",))
    thread.start()
    thread.join()
    assert job.ranks[failing].job_error.message == "rank failed: ValueError: boom"
    job.settle()
    for rank in range(3):
        error = job.ranks[rank].job_error
        assert (error.code, error.rank, error.message) == (INTERNAL, failing, "rank failed: ValueError: boom")
        assert len(job.job_errors[rank]) == 1
        assert [d.error.message for d in job.heard[rank]] == [error.message] * (rank != failing)
    for rank in range(3):
        assert not job.ranks[rank].leaving.all_ended
        job.ranks[rank].leaving.end(finalises=rank not in exits)
        job.settle()
    assert all(coordinator.leaving.all_ended for coordinator in job.ranks)
    assert [coordinator.leaving.all_finalise for coordinator in job.ranks] == [not exits] * 3


def test_what_was_decided_before_a_failure_is_run_on_all_ranks():
    """Otherwise those that run it wait for ever for those that do not."""
    job = Job(2)
    job.ranks[1].announce(ready(0))
    job.ranks[1].announce(ready(1))
    job.wires.deliver_all()
    job.ranks[0].announce(ready(0))
    job.poll(0)
    job.ranks[1].fail_job("rank 1 failed")
    assert not job.poll(1), "no verdict on what may have been decided"
    job.settle()
    assert [(d.op.index, d.error and d.error.message) for d in job.heard[1]] == [(0, None), (1, "rank 1 failed")]
    assert job.heard[0][0].error is None


def test_a_failed_rank_does_not_wait_for_rank_0_for_ever():
    job = Job(2)
    job.ranks[1].announce(ready(0))
    job.ranks[1].fail_job("rank 1 failed")
    job.settle(1.0, ranks=(1,))
    assert not job.heard[1]
    job.settle(2.5, ranks=(1,))
    assert [d.error.message for d in job.heard[1]] == ["rank 1 failed"]


def test_two_failures_at_once_get_one_name():
    job = Job(3)
    job.ranks[1].fail_job("one")
    job.ranks[2].fail_job("two")
    job.poll(2)
    job.settle()
    assert [error.message for error in errors_of(job)] == ["two"] * 3
    assert [len(errors) for errors in job.job_errors] == [1, 1, 1]


def test_rank_0_answers_also_after_it_left_because_of_a_failure():
    job = Job(2)
    job.ranks[1].fail_job("one")
    job.settle()
    job.ranks[0].leaving.begin()
    job.settle()
    assert job.ranks[1].leaving.leader_left_at is None


def test_a_second_failure_changes_nothing():
    job = Job(2)
    job.ranks[1].fail_job("first")
    job.settle()
    job.ranks[0].fail_job("second")
    job.ranks[1].fail_job("third")
    job.settle()
    assert [error.message for error in errors_of(job)] == ["first", "first"]
    assert [len(errors) for errors in job.job_errors] == [1, 1]


def test_one_rank_alone():
    job = Job(1)
    job.ranks[0].announce(ready(0, (1, 2, 3)))
    (decision,) = job.poll(0)
    assert decision.headers.tolist() == [[1, 2, 3]]
    job.ranks[0].fail_job("the executor broke")
    job.ranks[0].announce(ready(0))
    assert job.poll(0)[0].error.message == "the executor broke"
    job.ranks[0].leaving.begin()
    job.ranks[0].leaving.end(True)
    assert job.ranks[0].leaving.left and job.ranks[0].leaving.all_left and job.ranks[0].leaving.all_ended


def test_mpi_finalised_under_our_feet():
    job = Job(2)
    job.ranks[1].announce(ready(0))
    job.transports[1].closed = True
    job.settle(1.0, ranks=(1,))
    error = job.ranks[1].job_error
    assert error.code == FAILED_PRECONDITION and "hvd.shutdown()" in error.message
    assert [d.error for d in job.heard[1]] == [error]


def test_a_damaged_message_or_a_wrong_word_fails_the_job_and_not_the_thread():
    for data in (b"", b"\xff", b"\x00abc", b"\x03"):
        job = Job(2)
        job.wires.under_way[1, 0].append(data)
        job.settle()
        assert "damaged" in job.ranks[0].job_error.message and "damaged" in job.ranks[1].job_error.message
    from sok1x.launch.bundles import pack_widths, run
    from sok1x.launch.messages import encode
    job = Job(2)
    job.wires.under_way[0, 1].append(encode(run(1, pack_widths([0]), [[3], [5]], [b"", b""])))
    job.settle()
    assert "announcement 5 was decided, but there is none here" in job.ranks[0].job_error.message

"""What the coordinator does when ranks differ or wait; simulated ranks and a clock moved by hand."""
from launch_simulation import Job, errors_of, ready

from sok1x.launch.errors import DEADLINE_EXCEEDED, INVALID_ARGUMENT


def test_different_plans_fail_the_job_with_both_shown():
    job = Job(3)
    job.ranks[0].announce(ready(0, plan="user [8, 4]\nitem [8, 4]"))
    job.ranks[1].announce(ready(0, plan="user [8, 4]\nitem [8, 4]"))
    job.ranks[2].announce(ready(0, plan="user [8, 4]\nitem [8, 5]\nage [2, 2]"))
    job.settle()
    for rank, error in enumerate(errors_of(job)):
        assert error.code == INVALID_ARGUMENT and error.rank == 2
        for part in ("ranks built different graphs", "op 'op0'", "op number 1", "ranks 0, 1: item [8, 4]",
                     "rank 2: item [8, 5]", "Plan of ranks 0, 1, 2 ops", "Plan of rank 2, 3 ops", "  2: age [2, 2]"):
            assert part in error.message, part
        assert [d.error for d in job.heard[rank]] == [error]
        assert job.job_errors[rank] == [error]
    # Requests that come afterwards fail with the same.
    job.ranks[1].announce(ready(1))
    assert job.poll(1)[0].error is job.ranks[1].job_error


def test_plans_of_equal_length_are_compared_before_they_meet_at_an_op():
    """Rank 0 runs op 0, rank 1 only op 1: no op would ever be ready on both."""
    job = Job(2)
    job.ranks[0].announce(ready(0, plan="a\nb"))
    job.ranks[1].announce(ready(1, plan="a\nc"))
    job.settle()
    assert all(error.code == INVALID_ARGUMENT and "rank 1: c" in error.message for error in errors_of(job))


def test_a_plan_that_grows_is_no_mismatch_and_its_text_travels_once():
    job = Job(2)
    sizes = []
    for op, plan in ((0, "a\nb"), (2, "a\nb\nc" + "!" * 1000)):
        for _ in range(3):
            job.ranks[0].announce(ready(op, plan=plan))
            job.ranks[1].announce(ready(op, plan=plan))
            sizes.append(len(job.wires.under_way[1, 0][0]))
            job.settle()
    assert errors_of(job) == [None, None] and [len(heard) for heard in job.heard] == [6, 6]
    assert sizes[3] > 1000 > 200 > sizes[4] == sizes[5] == sizes[1] == sizes[2]


def test_other_graphs_may_have_other_plans():
    job = Job(2)
    for graph, plan in ((0, "a"), (1, "b")):
        for rank in range(2):
            job.ranks[rank].announce(ready((graph, 0), plan=plan, graphs=2))
    job.settle()
    assert errors_of(job) == [None, None] and [len(heard) for heard in job.heard] == [2, 2]


def test_stall_warning_names_op_missing_ranks_and_what_they_are_at():
    job = Job(4, stall=60.0)
    for rank in range(4):
        job.ranks[rank].announce(ready(0, name="warm-up"))
    job.settle()
    job.settle(1.0)
    job.ranks[0].announce(ready(1, name="train/user"))
    job.ranks[1].announce(ready(1, name="train/user"))
    job.ranks[2].announce(ready(2, name="eval/user"))
    job.settle()
    job.settle(59.0)
    assert not any(job.warnings)
    job.settle(2.0)
    for rank in range(2):
        (text,) = job.warnings[rank]
        assert text.startswith("sok1x: rank {}: op 'train/user' has waited 61 s for ranks 2, 3. ".format(rank))
        assert "Rank 2 has waited 61 s for op 'eval/user', which ranks 0, 1, 3 did not announce." in text
        assert "Rank 3 has announced no op since 'warm-up' was run 62 s ago." in text
        assert "SOK1X_ABORT_SECONDS" in text
    (text,) = job.warnings[2]
    assert text.startswith("sok1x: rank 2: op 'eval/user' has waited 61 s for ranks 0, 1, 3.")
    assert "Rank 0 has waited 61 s for op 'train/user'" in text
    assert not job.warnings[3]
    job.settle(30.0)
    assert len(job.warnings[0]) == 1, "once a period"
    job.settle(30.0)
    assert [len(warnings) for warnings in job.warnings] == [2, 2, 2, 0]
    # The late ranks come, and all goes on.
    for rank, op in ((2, 1), (3, 1), (0, 2), (1, 2), (3, 2)):
        job.ranks[rank].announce(ready(op))
    job.settle()
    assert errors_of(job) == [None] * 4 and [len(heard) for heard in job.heard] == [3] * 4


def test_stall_warning_says_when_a_rank_has_not_built_the_op_and_sums_up_many():
    job = Job(2, stall=60.0)
    job.ranks[1].announce(ready(0, plan="a"))
    for op in range(1, 9):
        job.ranks[0].announce(ready(op, plan="a\n" * 9))
    job.settle()
    job.settle(61.0)
    (text,) = job.warnings[0]
    assert "3 more ops wait as well." in text and "op 'op5'" in text and "op 'op6'" not in text
    assert "Rank 1 has waited 61 s for op 'op0'" in text
    job.ranks[0].announce(ready(0, plan="a"))
    job.settle()
    job.settle(60.0)
    assert "Rank 1 has built only 1 ops in this graph, and this is number 5." in job.warnings[0][1]


def test_no_stall_warning_when_turned_off():
    job = Job(2, stall=None)
    job.ranks[1].announce(ready(0))
    job.settle(1e6)
    job.settle(1e6)
    assert not any(job.warnings) and errors_of(job) == [None, None]


def test_abort_fails_the_job_on_all_ranks():
    job = Job(3, stall=5.0, abort=12.0)
    for rank in (0, 2):
        job.ranks[rank].announce(ready(0))
    job.settle()
    for _ in range(11):
        job.settle(1.0)
    assert errors_of(job) == [None] * 3 and len(job.warnings[2]) == 2
    job.settle(1.5)
    for error in errors_of(job):
        assert error.code == DEADLINE_EXCEEDED and error.rank == 1
        assert "op 'op0' has waited 12 s for rank 1. Rank 1 has announced no op yet." in error.message
        assert "SOK1X_ABORT_SECONDS=12" in error.message
    assert [len(heard) for heard in job.heard] == [1, 0, 1]


def test_followers_warn_and_give_up_on_their_own_when_rank_0_does_not_answer():
    job = Job(3, stall=10.0, abort=30.0)
    for rank in (1, 2):
        job.ranks[rank].announce(ready(0))
    for _ in range(12):
        job.settle(1.0, ranks=(1, 2))
    assert job.warnings[1] == ["sok1x: rank 1: op 'op0' has waited 11 s and rank 0, which orders the exchanges, does "
                               "not answer. It may be busy in a long operation, or stopped."]
    for _ in range(12):
        job.settle(1.0, ranks=(1, 2))
    assert len(job.warnings[2]) == 2
    for _ in range(10):
        job.settle(1.0, ranks=(1, 2))
    for rank in (1, 2):
        error = job.ranks[rank].job_error
        assert error.code == DEADLINE_EXCEEDED and "SOK1X_ABORT_SECONDS=30" in error.message
        assert [d.error for d in job.heard[rank]] == [error] and job.job_errors[rank] == [error]

"""How far each rank has read its data, in TensorFlow's checkpoints: each rank's own, or refused."""
import os

import pytest
import tensorflow as tf
from ranks import run_ranks

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "program_positions.py")


@pytest.mark.parametrize("ranks", [1, 2])
def test_positions_of_iterators(tmp_path, ranks):
    cases = ("among_all", "own", "hook")
    finished = run_ranks(ranks, PROGRAM, tmp_path, *cases, timeout=150)
    for case in cases:
        for rank in range(ranks):
            assert "rank {} did {}\n".format(rank, case) in finished.out, str(finished)
    named = [name for name in os.listdir(str(tmp_path / "hook-of-{}".format(ranks)))
             if name.startswith("input") and name.endswith(".index")]
    assert {name.split(".ckpt")[0] for name in named} == {
        1: {"input"}, 2: {"input_rank_0_of_2", "input_rank_1_of_2"}}[ranks], named


@pytest.mark.skipif(tf.__version__.startswith("1."), reason="TensorFlow 1.15 saves no iterators eagerly")
@pytest.mark.parametrize("ranks", [1, 2])
def test_positions_of_iterators_eagerly(tmp_path, ranks):
    finished = run_ranks(ranks, PROGRAM, tmp_path, "eager", timeout=100)
    assert finished.out.count(" did eager\n") == ranks, str(finished)


def test_a_job_of_another_number_of_ranks_says_that_it_reads_anew(tmp_path):
    run_ranks(2, PROGRAM, tmp_path, "hook", timeout=100)
    before, after = tmp_path / "hook-of-2", tmp_path / "other_ranks-of-3"
    after.mkdir()
    for name in os.listdir(str(before)):
        if "input" in name:
            os.rename(str(before / name), str(after / name))
    finished = run_ranks(3, PROGRAM, tmp_path, "other_ranks", timeout=100, check=False)
    assert finished.code == 0 and finished.out.count(" did other_ranks\n") == 3, str(finished)
    assert finished.err.count("the ranks of a job with another number of ranks have read (checkpoint_input_rank_0_of_2"
                              "), and this one has 3: all begin to read anew") == 1, str(finished)

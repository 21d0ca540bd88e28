"""Feature columns with tables of ours beside TensorFlow's own, and in canned Estimators."""
import os
import re

import pytest
from ranks import run_ranks

HERE = os.path.dirname(os.path.abspath(__file__))
ESTIMATOR = os.path.join(HERE, "program_columns_estimator.py")


@pytest.mark.parametrize("ranks, ways", [(0, ["keras", "linear"]), (2, ["layer"]), (4, ["some"])])
def test_columns_of_every_kind_train_as_tensorflows(ranks, ways, seed):
    finished = run_ranks(ranks, os.path.join(HERE, "program_columns.py"), seed, *ways, timeout=300)
    assert finished.out.count(" ok") == max(1, ranks), str(finished)


def done(ranks, folder, *what, **options):
    """What rank 0 did: (what, step, loss)."""
    finished = run_ranks(ranks, ESTIMATOR, folder, *what, timeout=300, **options)
    found = re.findall(r"^rank (\d) did (\w+) at (\d+): (\S+)$", finished.out, re.MULTILINE)
    for rank, name, step, loss in found:  # all ranks alike
        assert ("0", name, step, loss) in found, str(finished)
    return finished, [(name, int(step), float(loss)) for rank, name, step, loss in found if rank == "0"]


def test_a_canned_estimator_trains_on_two_ranks_and_goes_on_on_one(tmp_path):
    _, (trained, first, refused) = done(2, tmp_path, "train:5", "evaluate:5", "export")
    assert trained[:2] == ("train", 5) and refused[:2] == ("refused", 5) and 0.5 < first[2] < 0.7
    _, (again, exported, more, last) = done(0, tmp_path, "evaluate:5", "export", "train:9", "evaluate:9")
    assert again[1:] == exported[1:] == (5, pytest.approx(first[2], rel=1e-5)), "the served model gives it too"
    assert more[:2] == ("train", 9) and last[2] < first[2]


@pytest.mark.slow
def test_a_canned_estimator_that_is_killed_goes_on_from_its_last_checkpoint(tmp_path):
    finished, _ = done(2, tmp_path, "train:5", "kill:14", check=False)
    assert finished.code != 0
    _, (killed, _, after) = done(2, tmp_path, "evaluate:13", "train:17", "evaluate:17")
    _, (_, whole) = done(2, tmp_path / "whole", "train:17", "evaluate:17")
    assert killed[:2] == ("evaluate", 13) and after == whole

"""DCNv2 learns on two ranks by both APIs, goes on from its checkpoints, and does with uneven files."""
import os
import re
import sys

import numpy as np
import pytest
from ranks import run_ranks

EXAMPLES = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "legacy_examples")
DCNV2 = os.path.join(EXAMPLES, "dcnv2.py")
SMALL = ("--batch_size", 256, "--cross_layers", 1, "--low_rank", 8, "--hidden", 16, "--learning_rate", 0.01)
SCORE = re.compile(r"^step (\d+): test AUC ([\d.]+) of (\d+) samples$", re.MULTILINE)


@pytest.fixture(scope="module")
def criteo():
    sys.path.insert(0, EXAMPLES)
    try:
        import criteo
        return criteo
    finally:
        sys.path.remove(EXAMPLES)


@pytest.fixture(scope="module")
def data(criteo, tmp_path_factory):
    """Three train files and one test file, so that of two ranks one has far more than the other."""
    return criteo.make(str(tmp_path_factory.mktemp("criteo") / "data"), (4000, 1500, 500), (2000,))


def scored(ranks, data, *options):
    finished = run_ranks(ranks, DCNV2, "--data", data, *SMALL, *options, timeout=300)
    (step, area, samples), = SCORE.findall(finished.out)
    assert int(samples) == 2000, "of all ranks' test samples, each once"
    return int(step), float(area)


def test_files_are_criteos(data, criteo):
    with open(criteo.files(data, "train")[1]) as file:
        lines = file.read().splitlines()
    assert len(lines) == 1500
    cells = np.array([line.split(",") for line in lines])
    assert cells.shape == (1500, 40) and set(cells[:, 0]) == {"0", "1"}
    assert all(re.match(r"\d+$", cell) for cell in cells[:, 1:14].ravel())
    assert all(re.match(r"([0-9a-f]{8})?$", cell) for cell in cells[:, 14:].ravel()) and "" in cells
    assert [len(criteo.files(data, "train", rank, 2)) for rank in range(2)] == [2, 1]
    assert sorted(set(criteo.DIMS.values())) == [64, 128]


def test_it_learns_on_two_ranks_and_goes_on_from_its_checkpoint(data, tmp_path):
    """Rank 0 has 4500 samples, rank 1 has 1500: 36 steps of 128 on each rank."""
    saving = ("--checkpoint_dir", tmp_path / "saved", "--save_steps", 30)
    step, area = scored(2, data, *saving)
    assert step == 36 and area >= 0.75
    # Where the last step is behind nothing is left to train: one more is taken, and it is scored nearly as it was.
    step, again = scored(2, data, *saving, "--steps", 37)
    assert step == 37 and again == pytest.approx(area, abs=0.03)


def test_it_learns_by_feature_columns(data):
    step, area = scored(2, data, "--use_feature_columns")
    assert step == 36 and area >= 0.75

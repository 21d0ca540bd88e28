"""A job that ends and goes on is as one that never ended, on the same number of ranks and on another."""
import os
import re
import shutil

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from ranks import run_ranks

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "program_resume.py")
HALF, WHOLE = 100, 200
ALL = ("adam:hook", "lazy:hook", "adagrad:stock", "plugin:alone", "momentum:listener")
THREE = ALL[:3]


def train(ranks, folder, last_step, optimizers, save_steps=1000):
    """({optimizer: first step}, {(rank, optimizer): digest of all variables}, {what came out at the end: value})."""
    out = "{}-{}.npz".format(folder, last_step)
    finished = run_ranks(ranks, PROGRAM, folder, last_step, out, save_steps, *optimizers, timeout=180)
    lines = re.findall(r"^rank (\d+) (\w+) from (\d+) digest (\w+)$", finished.out, re.MULTILINE)
    assert len(lines) == ranks * len(optimizers), str(finished)
    with np.load(out) as loaded:
        return ({optimizer: int(first) for _, optimizer, first, _ in lines},
                {(rank, optimizer): digest for rank, optimizer, _, digest in lines}, dict(loaded))


@pytest.fixture(scope="module")
def on_two_ranks(tmp_path_factory):
    """(folder of a job of HALF steps on two ranks, what one of WHOLE steps at a stretch gave)."""
    folder = str(tmp_path_factory.mktemp("resume") / "saved")
    whole = train(2, folder + "-whole", WHOLE, ALL)
    assert set(train(2, folder, HALF, ALL)[0].values()) == {0}
    return folder, whole


def test_bit_for_bit_on_two_ranks(on_two_ranks, tmp_path):
    half, (_, digests, expected) = on_two_ranks
    folder = str(tmp_path / "saved")
    shutil.copytree(half, folder)
    first, resumed, values = train(2, folder, WHOLE, ALL)
    assert set(first.values()) == {HALF}
    assert resumed == digests
    for name, value in expected.items():
        np.testing.assert_array_equal(values[name], value, err_msg=name)


@pytest.mark.parametrize("before, after", [(2, 1), (1, 4), (4, 2)])
def test_on_another_number_of_ranks(before, after, on_two_ranks, tmp_path):
    half, (_, _, expected) = on_two_ranks
    folder = str(tmp_path / "saved")
    if before == 2:
        shutil.copytree(half, folder)
    else:
        train(before, folder, HALF, THREE)
    first, _, values = train(after, folder, WHOLE, THREE, save_steps=60)
    assert set(first.values()) == {HALF}
    for name, value in values.items():
        assert np.abs(value).max() > 0.1
        np.testing.assert_allclose(value, expected[name], rtol=1e-6, atol=1e-6, err_msg=name)
    for optimizer in first:
        # Every 60 steps from where it began, and at its end.
        state = tf.train.get_checkpoint_state(os.path.join(folder, optimizer))
        assert [int(path.split("-")[-1]) for path in state.all_model_checkpoint_paths] == [
            0, HALF, HALF + 60, WHOLE]
        assert tf.train.load_variable(state.model_checkpoint_path, "global_step") == WHOLE

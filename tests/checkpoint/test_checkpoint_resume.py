"""A job that ends and goes on is as one that never ended, on the same number of ranks and on another."""
import os
import re
import shutil

import numpy as np
import once
import pytest
import tensorflow.compat.v1 as tf
from ranks import run_ranks

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "program_resume.py")
HALF, WHOLE, SAVE_STEPS = 20, 40, 12
ALL = ("adam:hook", "lazy:hook", "adagrad:stock", "plugin:alone", "momentum:listener")
# What goes on on another number of ranks.
THREE = ALL[:3]


class Trained:
    """What a job gave.

    Attributes:
        folder: its checkpoints.
        first: {optimizer: first step}
        digests: {(rank, optimizer): digest of all variables}
        values: {what came out at the end: value}
    """

    def __init__(self, number, ranks, folder, last_step, optimizers, finished):
        self.folder = folder
        lines = re.findall(r"^job {} rank (\d+) (\w+) from (\d+) digest (\w+)$".format(number), finished.out, re.M)
        assert len(lines) == ranks * len(optimizers), str(finished)
        self.first = {optimizer: int(first) for _, optimizer, first, _ in lines}
        self.digests = {(rank, optimizer): digest for rank, optimizer, _, digest in lines}
        with np.load(out(folder, last_step)) as loaded:
            self.values = dict(loaded)


def out(folder, last_step):
    return "{}-{}.npz".format(folder, last_step)


def train(ranks, *jobs):
    """Runs jobs, each (folder, last step, optimizers, steps between saves), one after the other in one start."""
    words = []
    for folder, last_step, optimizers, save_steps in jobs:
        words += ["/", folder, last_step, out(folder, last_step), save_steps, *optimizers]
    finished = run_ranks(ranks, PROGRAM, *words, timeout=240)
    return [Trained(number, ranks, *job[:3], finished) for number, job in enumerate(jobs)]


# Every start of ranks first goes on with what an earlier one left, in processes that have trained nothing before.

@pytest.fixture(scope="module")
def on_two_ranks(tmp_path_factory):
    """A job of WHOLE steps at a stretch on two ranks, and one of HALF."""
    whole, half = once.made(tmp_path_factory, "resume_two", lambda folder: train(
        2, (os.path.join(folder, "whole"), WHOLE, ALL, 1000), (os.path.join(folder, "two"), HALF, ALL, 1000)))
    assert set(half.first.values()) == {0}
    return whole, half


@pytest.fixture(scope="module")
def on_one_rank(on_two_ranks, tmp_path_factory):
    """The half job of two ranks gone on with on one, and another half."""
    def make(folder):
        copy = shutil.copytree(on_two_ranks[1].folder, os.path.join(folder, "two-on-one"))
        return train(1, (copy, WHOLE, THREE, SAVE_STEPS), (os.path.join(folder, "one"), HALF, THREE, 1000))
    return once.made(tmp_path_factory, "resume_one", make)


@pytest.fixture(scope="module")
def on_four_ranks(on_one_rank, tmp_path_factory):
    def make(folder):
        return train(4, (on_one_rank[1].folder, WHOLE, THREE, SAVE_STEPS),
                     (os.path.join(folder, "four"), HALF, THREE, 1000))
    return once.made(tmp_path_factory, "resume_four", make)


@pytest.fixture(scope="module")
def on_two_ranks_again(on_two_ranks, on_four_ranks, tmp_path_factory):
    def make(folder):
        copy = shutil.copytree(on_two_ranks[1].folder, os.path.join(folder, "two-on-two"))
        return train(2, (copy, WHOLE, ALL, 1000), (on_four_ranks[1].folder, WHOLE, THREE, SAVE_STEPS))
    return once.made(tmp_path_factory, "resume_two_again", make)


def test_bit_for_bit_on_two_ranks(on_two_ranks, on_two_ranks_again):
    expected, resumed = on_two_ranks[0], on_two_ranks_again[0]
    assert set(resumed.first.values()) == {HALF}
    assert resumed.digests == expected.digests
    for name, value in expected.values.items():
        np.testing.assert_array_equal(resumed.values[name], value, err_msg=name)


@pytest.mark.parametrize("before, after", [(2, 1), (1, 4), (4, 2)])
def test_on_another_number_of_ranks(before, after, on_two_ranks, on_one_rank, on_four_ranks, on_two_ranks_again):
    resumed = {1: on_one_rank[0], 4: on_four_ranks[0], 2: on_two_ranks_again[1]}[after]
    expected = on_two_ranks[0].values
    assert set(resumed.first.values()) == {HALF} and len(resumed.first) == len(THREE)
    for name, value in resumed.values.items():
        assert np.abs(value).max() > 0.1
        np.testing.assert_allclose(value, expected[name], rtol=1e-6, atol=1e-6, err_msg=name)
    for optimizer in resumed.first:
        # Every SAVE_STEPS steps from where it began, and at its end.
        state = tf.train.get_checkpoint_state(os.path.join(resumed.folder, optimizer))
        assert [int(path.split("-")[-1]) for path in state.all_model_checkpoint_paths] == [
            0, HALF, HALF + SAVE_STEPS, WHOLE]
        assert tf.train.load_variable(state.model_checkpoint_path, "global_step") == WHOLE

"""Ranks with different numbers of samples train as one process that sees them all, and end together."""
import os

import even_steps_model as model
import numpy as np
import pytest
from ranks import run_ranks

HERE = os.path.dirname(os.path.abspath(__file__))
TABLES = ("single", "summed")
WAYS = {2: ("in_a_session_loop", "in_a_monitored_session", "in_an_estimator"), 4: ("in_a_session_loop",)}
CHECKS = {2: ("kinds_of_tensors", "in_keras", "two_at_once"), 4: ()}


@pytest.mark.parametrize("ranks", sorted(model.SIZES))
def test_equals_one_rank_that_sees_all_samples(ranks, tmp_path, seed):
    out = str(tmp_path / "results.npz")
    run_ranks(ranks, os.path.join(HERE, "program_even_steps.py"), out, seed, *WAYS[ranks] + CHECKS[ranks],
              timeout=240)
    with np.load(out) as loaded:
        results = dict(loaded)
    before = [results["in_a_session_loop/0/" + name] for name in TABLES]
    expected = model.train_stock(seed, ranks, 2, before)
    epochs = [("in_a_session_loop/1", expected[0]), ("in_a_session_loop/2", expected[1])]
    epochs += [(way + "/0", expected[0]) for way in WAYS[ranks][1:]]
    for way, (losses, tables, dense) in epochs:
        np.testing.assert_allclose(results[way + "/losses"], losses, rtol=1e-5, err_msg=way)
        for name, value in list(zip(TABLES, tables)) + sorted(dense.items()):
            np.testing.assert_allclose(results[way + "/" + name], value, rtol=1e-5, atol=1e-6, err_msg=(way, name))
    assert abs(results["in_a_session_loop/1/single"] - before[0]).max() > 1e-2

"""The demo's model under MonitoredTrainingSession and as an Estimator: an epoch ends as the demo's does."""
import os
import re

import pytest
from ranks import run_ranks

EXAMPLES = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "legacy_examples")
STEPS = 88  # an epoch of the demo: 90 000 samples in batches of 1024
RESULT = re.compile(r"^steps (\d+) to (\d+): test AUC ([\d.]+) as the Estimator measures it, ([\d.]+) exactly$", re.M)


@pytest.fixture(scope="module")
def expected():
    """The demo's test AUC after an epoch on one rank."""
    demo = run_ranks(0, os.path.join(EXAMPLES, "demo.py"), "--epochs", 1).out
    return float(re.search(r"^epoch 1: .* test AUC ([\d.]+)$", demo, re.MULTILINE).group(1))


def test_in_a_monitored_session_with_horovod_for_the_dense_variables(expected):
    done = run_ranks(2, os.path.join(EXAMPLES, "monitored.py"), "--steps", STEPS, "--log_every", 40, check=False)
    assert done.code == 0, str(done)
    # Rank 0 logs what LoggingTensorHook gives; no rank writes anything else.
    logged = re.findall(r"^INFO:tensorflow:loss = ([\d.]+), step = (\d+)", done.err, re.MULTILINE)
    assert [int(step) for _, step in logged] == [1, 41, 81], str(done)
    assert float(logged[-1][0]) < float(logged[0][0]), str(done)
    assert "Traceback" not in done.err and "Error" not in done.err, str(done)

    tested = re.findall(r"^step (\d+): test AUC ([\d.]+)$", done.out, re.MULTILINE)
    assert [int(step) for step, _ in tested] == [STEPS], str(done)
    assert abs(float(tested[0][1]) - expected) < 1e-3, (expected, str(done))


def test_as_an_estimator_on_two_ranks_and_then_on_one(expected, tmp_path):
    program, folder = os.path.join(EXAMPLES, "estimator.py"), str(tmp_path / "model")
    found = []
    for ranks, steps in ((2, 60), (0, STEPS)):
        finished = run_ranks(ranks, program, "--model_dir", folder, "--steps", steps, "--save_steps", 50)
        (first, last, measured, area), = RESULT.findall(finished.out)
        assert abs(float(measured) - float(area)) < 2e-3, str(finished)
        found.append((int(first), int(last), float(area)))
    assert [(first, last) for first, last, _ in found] == [(0, 60), (60, STEPS)]
    assert abs(found[-1][2] - expected) < 1e-3, (found, expected)

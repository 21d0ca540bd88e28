"""The demo's model as an Estimator: on two ranks, then on one, it ends as the demo does."""
import os
import re

from ranks import run_ranks

EXAMPLES = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "legacy_examples")
STEPS = 88  # an epoch of the demo: 90 000 samples in batches of 1024
RESULT = re.compile(r"^steps (\d+) to (\d+): test AUC ([\d.]+) as the Estimator measures it, ([\d.]+) exactly$", re.M)


def test_an_epoch_on_two_ranks_and_one_ends_as_the_demos_does(tmp_path):
    program, folder = os.path.join(EXAMPLES, "estimator.py"), str(tmp_path / "model")
    found = []
    for ranks, steps in ((2, 60), (0, STEPS)):
        finished = run_ranks(ranks, program, "--model_dir", folder, "--steps", steps, "--save_steps", 50)
        (first, last, measured, area), = RESULT.findall(finished.out)
        assert abs(float(measured) - float(area)) < 2e-3, str(finished)
        found.append((int(first), int(last), float(area)))
    assert [(first, last) for first, last, _ in found] == [(0, 60), (60, STEPS)]
    demo = run_ranks(0, os.path.join(EXAMPLES, "demo.py"), "--epochs", 1).out
    area = float(re.search(r"^epoch 1: .* test AUC ([\d.]+)$", demo, re.MULTILINE).group(1))
    assert abs(found[-1][2] - area) < 1e-3, (found, demo)

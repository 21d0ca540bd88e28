"""SOK's get-started models of TensorFlow 2 against those of TensorFlow 1.15: losses on the same data.

losses.json is what legacy_examples/sok_get_started.py and sok2_get_started.py print on TensorFlow 1.15.5; the slow test
makes it anew and compares.
"""
import json
import os
import re

import pytest
import tensorflow
from ranks import run_ranks

HERE = os.path.dirname(os.path.abspath(__file__))
EXAMPLES = os.path.join(os.path.dirname(os.path.dirname(HERE)), "legacy_examples")
OF_1 = tensorflow.__version__.startswith("1.")
ARGUMENTS = {
    "sok": "--steps 20 --dense_layers 2 --units 64 --samples 4096 --even_start".split(),
    "sok2": "--steps 20 --even_start --folder".split()}


def losses(name, ranks, tmp_path):
    pytest.importorskip("horovod")
    program = "{}_get_started.py".format(name if OF_1 else name + "_tf2")
    finished = run_ranks(ranks, os.path.join(EXAMPLES, program), *ARGUMENTS[name] + [str(tmp_path)] * (name == "sok2"),
                         timeout=300, fresh=True, env={"SOK1X_TEST_BEHAVIOR": "v2"})
    return {int(step): float(loss) for step, loss in re.findall(r"^step (\d+): loss ([\d.]+)", finished.out, re.M)}


def check(name, ranks, tmp_path):
    with open(os.path.join(HERE, "losses.json")) as file:
        expected = json.load(file)["{} on {}".format(name, ranks)]
    found = losses(name, ranks, tmp_path)
    assert sorted(map(str, found)) == sorted(expected)
    for step, loss in found.items():
        assert abs(loss - expected[str(step)]) < 1e-5, (step, loss, expected)


@pytest.mark.skipif(OF_1, reason="is what TensorFlow 2 is compared with")
@pytest.mark.parametrize("name, ranks", [("sok", 1), ("sok", 2), ("sok2", 1), ("sok2", 2)])
def test_losses_are_those_of_tensorflow_1(name, ranks, tmp_path):
    check(name, ranks, tmp_path)


@pytest.mark.slow
@pytest.mark.skipif(not OF_1, reason="the figures are TensorFlow 1.15's")
@pytest.mark.parametrize("name, ranks", [("sok", 1), ("sok", 2), ("sok2", 1), ("sok2", 2)])
def test_the_figures_are_tensorflow_1s(name, ranks, tmp_path):
    check(name, ranks, tmp_path)

"""SOK's get-started model, as it is and under SOK's own module name."""
import os
import re

import pytest
from ranks import run_ranks

SCRIPT = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "legacy_examples",
                      "sok_get_started.py")
LOSS = re.compile(r"^step (\d+): loss ([\d.]+)", re.MULTILINE)


def losses(out):
    return [(int(step), float(loss)) for step, loss in LOSS.findall(out)]


def test_the_whole_model_trains_on_two_ranks():
    out = run_ranks(2, SCRIPT, "--steps", 30, "--global_batch_size", 256, timeout=180).out
    found = losses(out)
    assert [step for step, _ in found] == [1, 10, 20, 30], out  # rank 0 alone prints
    assert abs(found[0][1] - 0.693) < 0.01 and found[-1][1] < 0.67, out


# Runs scripts one after the other, each in a graph of its own.
BOTH = """
import tensorflow as tf
for script in {!r}:
    with tf.Graph().as_default():
        exec(compile(script, "script", "exec"), {{"__name__": "__main__"}})
"""


@pytest.mark.parametrize("ranks", [0, 2])
def test_under_the_name_that_it_was_written_for(ranks):
    """The script, and it with its import of sok put back, behind the line that makes sok1x answer to that name."""
    with open(SCRIPT) as file:
        text = file.read()
    ours = "import sok1x as sok\n"
    assert text.count("sok1x as") == 1 and text.count(ours) == 1
    renamed = text.replace(
        ours, "import sok1x\nsok1x.install_as_sparse_operation_kit()\nimport sparse_operation_kit as sok\n")
    found = losses(run_ranks(ranks, BOTH.format([text, renamed]), "--steps", 10, "--units", 32, "--global_batch_size",
                             64, "--samples", 640).out)
    assert [step for step, _ in found] == [1, 10] * 2, found
    assert found[2:] == pytest.approx(found[:2]), "another name, other numbers"

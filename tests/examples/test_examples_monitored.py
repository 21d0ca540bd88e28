"""The demo's model under MonitoredTrainingSession, with Horovod for the dense variables."""
import os
import re

from ranks import run_ranks

EXAMPLES = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "legacy_examples")
STEPS = 88  # an epoch of the demo: 90 000 samples in batches of 1024


def test_an_epoch_ends_as_the_demos_does():
    done = run_ranks(2, os.path.join(EXAMPLES, "monitored.py"), "--steps", STEPS, "--log_every", 40, check=False)
    assert done.code == 0, str(done)
    # Rank 0 logs what LoggingTensorHook gives; no rank writes anything else.
    logged = re.findall(r"^INFO:tensorflow:loss = ([\d.]+), step = (\d+)", done.err, re.MULTILINE)
    assert [int(step) for _, step in logged] == [1, 41, 81], str(done)
    assert float(logged[-1][0]) < float(logged[0][0]), str(done)
    assert "Traceback" not in done.err and "Error" not in done.err, str(done)

    tested = re.findall(r"^step (\d+): test AUC ([\d.]+)$", done.out, re.MULTILINE)
    assert [int(step) for step, _ in tested] == [STEPS], str(done)
    demo = run_ranks(0, os.path.join(EXAMPLES, "demo.py"), "--epochs", 1).out
    area = float(re.search(r"^epoch 1: .* test AUC ([\d.]+)$", demo, re.MULTILINE).group(1))
    assert abs(float(tested[0][1]) - area) < 1e-3, (demo, str(done))

"""The demo: its AUC, that it does not depend on the number of ranks, and what it prints."""
import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import once
import pytest
from ranks import run_ranks
from tensorflow2_skips import ON_TENSORFLOW_2

EXAMPLES = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "legacy_examples")
DEMO = os.path.join(EXAMPLES, "demo.py")
EPOCH = re.compile(r"^epoch (\d+): loss ([\d.]+), test AUC ([\d.]+)$", re.MULTILINE)
PROGRESS = re.compile(r"^epoch \d+: +\d+ % done, [\d,]+ samples/s, \d+ s left$", re.MULTILINE)


@pytest.fixture(scope="module")
def model():
    """legacy_examples/model.py, which imports its neighbours by their bare names as scripts do."""
    sys.path.insert(0, EXAMPLES)
    try:
        import model
        return model
    finally:
        sys.path.remove(EXAMPLES)


def epochs(out):
    """(number, loss, AUC) of each epoch that was printed."""
    return [(int(number), float(loss), float(area)) for number, loss, area in EPOCH.findall(out)]


def trained(ranks, *options):
    """What the demo's epochs printed; without options there are six."""
    out = run_ranks(ranks, DEMO, *options, timeout=300).out
    print(out)
    assert "ranks: {}\n".format(ranks or 1) in out
    return out, epochs(out)


@pytest.fixture(scope="module")
def on_two_ranks(tmp_path_factory):
    """Trained to the end."""
    return once.made(tmp_path_factory, "examples_demo", lambda folder: trained(2))


def test_auc_is_high_and_equal_on_1_2_and_4_ranks(on_two_ranks):
    """On one rank and on four the first epochs are as those on two."""
    out, results = on_two_ranks[0], {2: on_two_ranks[1]}
    assert PROGRESS.search(out), out
    for ranks, count in ((0, 2), (4, 1)):  # 0: without a launcher
        results[ranks] = trained(ranks, "--epochs", count)[1]
    for ranks, count in ((2, 6), (0, 2), (4, 1)):
        # Rank 0 alone prints, every epoch once.
        assert [number for number, _, _ in results[ranks]] == list(range(1, count + 1)), results
    _, losses, areas = zip(*results[2])
    assert losses[-1] < losses[0] and areas[-1] >= 0.78, results
    for ranks in (0, 4):
        # Sums in another order is all that may differ.
        count = len(results[ranks])
        np.testing.assert_allclose(results[ranks][0], results[2][0], rtol=1e-3)
        assert abs(results[ranks][-1][2] - areas[count - 1]) <= 0.005


# Runs the demo's main once for each optimizer, in graphs of their own.
ONE_AFTER_THE_OTHER = """
import sys
sys.path.insert(0, {examples!r})
import demo
for name in {optimizers!r}:
    sys.argv = ["demo.py", "--epochs", "1", "--batch_size", "2000", "--seed", "5", "--optimizer", name]
    with demo.tf.Graph().as_default():
        demo.main()
"""


def an_epoch(ranks, *optimizers):
    """(loss, AUC) of one epoch with each of these optimizers."""
    out = run_ranks(ranks, ONE_AFTER_THE_OTHER.format(examples=EXAMPLES, optimizers=optimizers)).out
    results = [(loss, area) for _, loss, area in epochs(out)]
    assert len(results) == len(optimizers) and all(area > 0.7 for _, area in results), out
    return results


def test_options_and_that_our_optimizers_train_as_tensorflows():
    of_contrib = [] if ON_TENSORFLOW_2 else ["lazyadam"]
    expected = an_epoch(0, "adagrad", "keras_adam", *of_contrib)[1:]
    np.testing.assert_allclose(an_epoch(2, "sok_adam", *("sok_" + name for name in of_contrib)), expected, atol=1e-3)


def test_every_optimizer_of_the_list(model):
    """One for the tables and one for the dense variables, which are of one kind but where ours takes no dense ones."""
    assert {"sgd", "adam", "lazyadam", "keras_sgd", "keras_adam", "sok_lazyadam", "sok_keras_adam", "sok_adam"} <= set(
        model.OPTIMIZERS)
    if ON_TENSORFLOW_2:
        with pytest.raises(SystemExit, match="tf.contrib, which TensorFlow 2.* has not: take sok_lazyadam"):
            model.make_optimizers("lazyadam")
    for name in set(model.OPTIMIZERS) - ({"lazyadam"} if ON_TENSORFLOW_2 else set()):
        tables, dense = model.make_optimizers(name)
        assert tables is not dense and isinstance(dense, type(tables)) == (name != "sok_adam")


def test_goes_on_after_ctrl_c(on_two_ranks, tmp_path):
    """As if it had not been interrupted: the same AUC. The loss that is printed is of the steps after."""
    _, expected, *_ = on_two_ranks[1]
    saved = tmp_path / "saved"
    options = ["--epochs", "2", "--checkpoint_dir", str(saved)]
    # Every step is saved: thus seconds are left after the 60th, on any machine.
    interrupted = subprocess.Popen(
        ["mpiexec", "--oversubscribe", "-np", "2", sys.executable, DEMO, "--save_steps", "1"] + options,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True, start_new_session=True,
        env=dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", PYTHONWARNINGS="ignore"))
    try:
        end = time.time() + 120
        while time.time() < end and not any(int(path.suffix[6:]) >= 60 for path in saved.glob("model.ckpt-*[0-9]")):
            time.sleep(0.05)
        os.killpg(interrupted.pid, signal.SIGINT)  # as a terminal does
        out = interrupted.communicate(timeout=60)[0]
    finally:
        if interrupted.poll() is None:
            os.killpg(interrupted.pid, signal.SIGKILL)
    assert interrupted.returncode and "samples/s in training" not in out, out
    out = run_ranks(2, DEMO, "--save_steps", "20", *options).out
    assert re.search(r"going on after step \d+, from", out), out
    number, loss, area = epochs(out)[-1]
    assert (number, area) == (2, expected[2]) and abs(loss - expected[1]) < 0.02, out


def test_auc_counts_pairs_in_order(model, seed):
    random = np.random.RandomState(seed)
    for levels in (2, 7, 10 ** 9):
        labels = random.randint(0, 2, 200).astype(np.float32)
        labels[:2] = 0, 1
        scores = random.randint(0, levels, 200).astype(np.float32)
        above, below = scores[labels > 0][:, None], scores[labels == 0][None]
        expected = np.mean((above > below) + 0.5 * (above == below))
        assert abs(model.auc(labels, scores) - expected) < 1e-9
    assert model.auc(np.array([0, 1]), np.array([0.1, 0.2])) == 1
    assert model.auc(np.array([0, 1]), np.array([0.3, 0.2])) == 0


def test_ranks_share_the_same_global_batches(model):
    order = model.shuffled(np.arange(1003), 3, 1)
    assert sorted(order) == list(range(1003)) and (order != model.shuffled(np.arange(1003), 3, 2)).any()
    whole = model.batches(order, 100)
    np.testing.assert_array_equal(np.concatenate(whole), order)
    for ranks in (1, 2, 4):
        for batch in whole:
            parts = [model.part_of(batch, rank, ranks) for rank in range(ranks)]
            np.testing.assert_array_equal(np.concatenate(parts), batch)


@pytest.mark.parametrize("name", ["demo.py", "monitored.py", "sok_get_started.py"])
def test_scripts_are_short(name):
    with open(os.path.join(EXAMPLES, name)) as file:
        assert len(file.readlines()) < 150

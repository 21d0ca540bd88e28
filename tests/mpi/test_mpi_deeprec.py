"""DeepRec's scripts on any number of ranks: each start goes on from the last one's checkpoint, on other ranks."""
import os

import numpy as np
import pytest
from ranks import run_ranks

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.path.join(HERE, "program_deeprec.py")
ALONE = """
import sok1x, tensorflow.compat.v1 as tf
from sok1x import deeprec
deeprec.enable_distributed_strategy("localized")
rows, = deeprec.group_embedding_lookup([deeprec.get_embedding_variable("items", 1, initializer=0.5)], [[7]])
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    assert session.run(rows).tolist() == [[0.5]]
print("one of", sok1x.communication.num_ranks(), "agrees")
"""


def run(ranks, folder, last, kind, seed):
    finished = run_ranks(ranks, PROGRAM, folder, last, kind, seed, timeout=240)
    assert finished.out.count("agrees") == ranks, str(finished)


def test_a_monitored_script_goes_on_from_rank_to_ranks(seed, tmp_path):
    for ranks, last in ((2, 8), (4, 14), (1, 20)):
        run(ranks, tmp_path, last, "monitored", seed)


def test_a_script_of_plain_sessions_with_horovod(seed, tmp_path):
    pytest.importorskip("horovod.tensorflow")
    for ranks, last in ((2, 10), (1, 20)):
        run(ranks, tmp_path, last, "horovod", seed)


def test_each_part_can_be_turned_off(tmp_path):
    finished = run_ranks(2, os.path.join(HERE, "program_deeprec_parts.py"), tmp_path)
    assert finished.out.count("agrees") == 2, str(finished)


def test_localized_is_this_process_alone():
    finished = run_ranks(2, ALONE)
    assert finished.out.count("one of 1 agrees") == 2, str(finished)


@pytest.mark.parametrize("ranks", [1, 2])
def test_an_estimator_without_tables(ranks, tmp_path):
    finished = run_ranks(ranks, os.path.join(HERE, "program_deeprec_estimator.py"), tmp_path, timeout=150)
    mine = [[float(number) for number in line.split(": ")[1].split()] for line in finished.out.splitlines()
            if line.startswith("of rank ")]
    assert len(mine) == 3 * ranks, str(finished)
    for turn in range(3):
        of_turn = sorted(mine, key=lambda pair: pair[1])[::-1][turn * ranks:(turn + 1) * ranks]  # it falls
        assert len({loss for _, loss in of_turn}) == 1, str(finished)
        np.testing.assert_allclose(np.mean([one for one, _ in of_turn]), of_turn[0][1], rtol=1e-5)
    stopped = {line.split(" at ")[1] for line in finished.out.splitlines() if " stopped at " in line}
    assert len(stopped) == 1 and int(stopped.pop()) < 60, str(finished)

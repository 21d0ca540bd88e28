"""tf.train.Checkpoint of eager programs with tables, on one rank and on several; and as a manager's."""
import os

import pytest
import tensorflow
from ranks import run_ranks

pytestmark = pytest.mark.skipif(tensorflow.__version__.startswith("1."), reason="TensorFlow 1.15 works in graphs")
HERE = os.path.dirname(os.path.abspath(__file__))


def test_checkpoints_of_objects_on_the_same_number_of_ranks_and_another(seed, tmp_path):
    for ranks, former in ((2, []), (1, ["2"]), (2, ["1"])):
        finished = run_ranks(ranks, os.path.join(HERE, "program_objects.py"), seed, tmp_path, *former, timeout=300)
        assert finished.out.count("ok") == ranks


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_whole_checkpoint_of_that_name_is_replaced(ranks, tmp_path):
    finished = run_ranks(ranks, os.path.join(HERE, "program_whole_prefixes.py"), tmp_path, timeout=300)
    assert finished.out.count("ok") == ranks


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_manager_says_what_its_checkpoint_has_not(ranks, tmp_path):
    finished = run_ranks(ranks, os.path.join(HERE, "program_manager_rest.py"), tmp_path, timeout=300)
    assert finished.out.count("ok") == ranks


@pytest.mark.parametrize("ranks", [1, 2])
def test_tables_that_remembered_another_number_of_keys(ranks, tmp_path):
    finished = run_ranks(ranks, os.path.join(HERE, "program_remembered.py"), tmp_path, timeout=300)
    assert finished.out.count("ok") == ranks


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_what_saves_have_left_that_died_goes_and_nothing_else(ranks, tmp_path):
    finished = run_ranks(ranks, os.path.join(HERE, "program_left_shards.py"), tmp_path, timeout=300)
    assert finished.out.count("ok") == ranks


@pytest.mark.parametrize("ranks", [2, 3])
def test_what_another_job_replaces_meanwhile(ranks, tmp_path):
    finished = run_ranks(ranks, os.path.join(HERE, "program_replaced_prefixes.py"), tmp_path, timeout=300)
    assert finished.out.count("ok") == ranks


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_restore_that_fails_says_why_and_leaves_nothing(ranks, tmp_path):
    finished = run_ranks(ranks, os.path.join(HERE, "program_failed_restores.py"), "all", tmp_path, timeout=300)
    assert finished.out.count("ok") == ranks


def test_a_rank_that_waits_alone_says_what_it_has_not_found(tmp_path):
    finished = run_ranks(2, os.path.join(HERE, "program_failed_restores.py"), "unseen", tmp_path, timeout=300,
                         env={"SOK1X_DEADLOCK_SECONDS": "3"}, check=False)
    assert finished.out.count("ok") == 2, str(finished)

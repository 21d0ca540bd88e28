"""Rows that a script's own hook reads before its session's hooks have restored them: they do first, or it is told."""
import datetime
import os

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from hooked_sessions import hook, listened, train
from ranks import run_ranks
from stock_model import KEYS

import sok1x as sok

HERE = os.path.dirname(os.path.abspath(__file__))
READS = {
    "export": lambda table, session: sok.export(table, session),
    "steps": lambda table, session: sok.incremental_dump(table, 0, session),
    "times": lambda table, session: [one for one, in sok.incremental_model_dump(
        [table], datetime.datetime(1970, 1, 1), session)]}


class Reads(tf.train.SessionRunHook):
    def __init__(self, how, found):
        self.how, self.found = how, found

    def after_create_session(self, session, coord):
        table = tf.get_collection(sok.GraphKeys.GLOBAL_EMBEDDING_VARIABLES)[0]
        self.found.extend(READS[self.how](table, session))


@pytest.mark.parametrize("make", [hook, listened])
@pytest.mark.parametrize("how", READS)
def test_on_one_rank_hooks_restore_before(how, make, tmp_path):
    saved, found = str(tmp_path), []
    train(5, [make(saved)], checkpoint_dir=saved)
    assert train(1, lambda: [Reads(how, found), make(saved, 100)], checkpoint_dir=saved) == 5
    keys, rows = found
    assert sorted(keys) == list(range(KEYS))
    np.testing.assert_array_equal(rows[:, 0], 10 * keys + 5)


def test_on_two_ranks(tmp_path):
    """Where no rank waits for another it is told; what all ranks call together has the hooks restore."""
    finished = run_ranks(2, os.path.join(HERE, "program_stock_hooks.py"), tmp_path, "read_first", timeout=180)
    for rank in range(2):
        assert "rank {} did read_first\n".format(rank) in finished.out, str(finished)

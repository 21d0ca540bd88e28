"""Graphs that `tf.train.import_meta_graph` makes in a fresh process: their Savers restore all tables, or refuse."""
import os

import pytest
from ranks import run_ranks

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "program_imported.py")


@pytest.mark.parametrize("saved, restored", [(1, 1), (1, 2), (2, 1), (2, 2)])
def test_an_imported_graph_in_a_fresh_process(tmp_path, seed, saved, restored):
    for ranks, part in ((saved, "save"), (restored, "restore")):
        finished = run_ranks(ranks, PROGRAM, tmp_path, seed % 10 ** 6, part, timeout=120)
        for rank in range(ranks):
            assert "rank {} did {}\n".format(rank, part) in finished.out, str(finished)

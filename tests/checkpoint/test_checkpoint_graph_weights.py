"""Keras' `save_weights` and `load_weights` in graphs on several ranks: weights by their places, and the optimizer."""
import os

from ranks import run_ranks

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "program_graph_weights.py")


def test_weights_have_other_names_where_they_are_loaded(seed, tmp_path):
    """Saved by two ranks, loaded by as many, which go on as if nothing had been, and by one."""
    for ranks, stage in ((2, "save"), (2, "load"), (1, "load")):
        finished = run_ranks(ranks, PROGRAM, stage, tmp_path, seed, timeout=200)
        assert finished.out.count("ok") == ranks, str(finished)

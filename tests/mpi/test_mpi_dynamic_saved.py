"""Tables of all kinds from one number of ranks to another, from one kind to another, and dumped by time."""
import os

from ranks import run_ranks

HERE = os.path.dirname(os.path.abspath(__file__))


def test_kinds_and_numbers_of_ranks_in_turn(tmp_path, seed):
    for stage, ranks in enumerate((2, 1, 4, 2)):
        finished = run_ranks(ranks, os.path.join(HERE, "program_dynamic_saved.py"), seed, tmp_path, stage)
        assert finished.out.count("ok") == ranks, str(finished)

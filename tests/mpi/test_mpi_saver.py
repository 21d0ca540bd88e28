"""sok.Saver on several ranks, and from one number of ranks to another."""
import os

import pytest
from ranks import run_ranks

HERE = os.path.dirname(os.path.abspath(__file__))


def run(ranks, program, *arguments):
    return run_ranks(ranks, os.path.join(HERE, program), *arguments)


def test_every_number_of_ranks_restores_what_any_other_has_dumped(seed, tmp_path):
    earlier = []
    for ranks in (1, 4, 2):
        finished = run(ranks, "program_saver.py", seed, tmp_path, *earlier)
        assert finished.out.count("ok") == ranks, str(finished)
        earlier = sorted(set(earlier + [ranks]))


def test_what_fails_on_one_rank_fails_on_all_without_a_change(tmp_path):
    assert run(3, "program_saver_faults.py", tmp_path).out.count("ok") == 3


@pytest.mark.parametrize("ranks", [4])
def test_memory_does_not_grow_with_the_number_of_ranks(ranks, tmp_path):
    assert run(ranks, "program_saver_memory.py", tmp_path).out.count("ok") == ranks

"""`sok.dump` and `sok.load` on several ranks, and from one number of ranks to another."""
import os

import pytest
from ranks import run_ranks

HERE = os.path.dirname(os.path.abspath(__file__))


def run(ranks, program, *arguments):
    finished = run_ranks(ranks, os.path.join(HERE, program), *arguments)
    assert finished.out.count("ok") == ranks, str(finished)


def test_every_number_of_ranks_loads_what_any_other_has_dumped(tmp_path):
    earlier = []
    for ranks in (1, 4, 2):
        run(ranks, "program_dump_load.py", tmp_path, *earlier)
        earlier = sorted(set(earlier + [ranks]))


@pytest.mark.parametrize("ranks", [2])
def test_memory_and_time_of_a_large_table(ranks, tmp_path):
    run(ranks, "program_dump_memory.py", tmp_path)

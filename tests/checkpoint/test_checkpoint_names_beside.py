"""A table that is called like what another might have beside its rows is none of that one's parts in a checkpoint."""
import os

import pytest
from ranks import run_ranks

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "program_names_beside.py")


@pytest.mark.parametrize("beside", ["every", "index"])
def test_what_one_rank_has_saved(tmp_path, beside):
    for what, ranks in (("save", 1), ("restore", 2), ("imported", 1)):
        assert run_ranks(ranks, PROGRAM, what, tmp_path / "model", beside, timeout=120).out.count("ok") == ranks

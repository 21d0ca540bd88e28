"""sok.Variable and its lookups on any number of ranks: several programs in one start."""
import os

import pytest
from ranks import run_ranks

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAMS = (
    "program_static_lookup.py",     # values and gradients as of TensorFlow's own lookup in the whole tables
    "program_zero_weights.py",      # likewise, of bags whose weights add up to zero
    "program_static_training.py",   # optimizers, sessions, loops; beside the layers of SOK 1.x
    "program_static_variables.py",  # what variables are made from, where their rows are, what is refused
)
CHECKPOINT = os.path.join(HERE, "program_static_checkpoint.py")


@pytest.mark.parametrize("ranks", [pytest.param(1, marks=pytest.mark.slow), 2, pytest.param(4, marks=pytest.mark.slow)])
def test_programs_that_check_themselves(ranks, seed):
    finished = run_ranks(ranks, os.path.join(HERE, "program_several.py"), seed, *PROGRAMS, timeout=390)
    lines = finished.out.splitlines()
    assert all(lines.count(program + " is over") == ranks for program in PROGRAMS), str(finished)
    assert lines.count("ok") == ranks * len(PROGRAMS), str(finished)


@pytest.mark.parametrize("saved_on, restored_on", [(2, (1, 2, 4)), pytest.param(1, (2,), marks=pytest.mark.slow)])
def test_checkpoints_on_other_ranks_with_rows_in_other_places(saved_on, restored_on, seed, tmp_path):
    for program, ranks in [("save", saved_on)] + [("restore", ranks) for ranks in restored_on]:
        finished = run_ranks(ranks, CHECKPOINT, program, tmp_path, seed, env={"SAVED_ON": str(saved_on)})
        assert finished.out.count("ok") == ranks, str(finished)

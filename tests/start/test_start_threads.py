"""What joins the ranks without a session leaves TensorFlow's threads to the user's sessions."""
import os

import pytest
from ranks import run_ranks

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "program_threads.py")


@pytest.mark.parametrize("ranks", [0, 2])
@pytest.mark.parametrize("how", ["call", "hook"])
def test_threads_are_as_the_session_says(how, ranks):
    finished = run_ranks(ranks, PROGRAM, how, timeout=90, fresh=True)
    assert finished.out.count("ok") == max(1, ranks)

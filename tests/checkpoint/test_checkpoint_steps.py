"""Ranks that save after different steps by TensorFlow's own Savers: refused, for nobody could restore that."""
import os

from ranks import run_ranks

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "program_steps.py")


def test_savers_of_different_steps_are_refused(tmp_path):
    finished = run_ranks(2, PROGRAM, tmp_path, timeout=120, env={"SOK1X_GRACE_SECONDS": "10"})
    for rank in range(2):
        assert "rank {} did all\n".format(rank) in finished.out, str(finished)

"""TensorFlow's own Savers and hooks, on several ranks: all ranks' rows, or refused."""
import os

import pytest
from ranks import run_ranks

HERE = os.path.dirname(os.path.abspath(__file__))
CASES = {"program_stock.py": ("paths", "parts", "reads", "swapping", "own", "own_mixed", "own_otherwise", "remembering",
                              "failures"),
         "program_stock_hooks.py": ("clocks", "keras", "one_model_dir", "supervisors", "rank_0_alone", "urls")}


@pytest.mark.parametrize("program", CASES)
def test_on_two_ranks(tmp_path, program):
    finished = run_ranks(2, os.path.join(HERE, program), tmp_path, *CASES[program], timeout=180)
    for case in CASES[program]:
        for rank in range(2):
            assert "rank {} did {}\n".format(rank, case) in finished.out, str(finished)


def test_a_checkpoint_by_rank_0_alone_is_refused_before_anything_is_written(tmp_path):
    finished = run_ranks(2, os.path.join(HERE, "program_stock_hooks.py"), tmp_path, "rank_0_alone_in_a_loop",
                         env={"SOK1X_DEADLOCK_SECONDS": "1.5"}, check=False)
    assert finished.code != 0, str(finished)
    for words in ("CheckpointError: every rank waits for an op that another rank does not run",
                  "a tf.train.Saver saves tables: Tables are spread over all ranks",
                  "the manager or the Saver on every rank"):
        assert words in finished.err, str(finished)
    assert not os.listdir(str(tmp_path))

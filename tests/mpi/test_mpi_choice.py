"""Bags whose exchange is chosen in each step, where ranks tell only what they wish for: values, and the choice."""
import os

import pytest
from ranks import run_ranks

HERE = os.path.dirname(os.path.abspath(__file__))


@pytest.mark.parametrize("ranks, env", [
    (5, {"SOK1X_TREE_WIDTH": "2", "SOK1X_WHOLE_HEADERS": "2"}),
    (6, {"SOK1X_TREE_WIDTH": "1", "SOK1X_EXCHANGE_BY_HOSTS": "2"})], ids=["tree", "chain_by_hosts"])
def test_all_ranks_choose_what_moves_fewer_bytes(ranks, env, seed):
    finished = run_ranks(ranks, os.path.join(HERE, "program_choice.py"), seed % 10 ** 6, timeout=240,
                         env=dict(env, SOK1X_TREE_RANKS="2"))
    assert finished.out.count(" ok") == ranks, str(finished)

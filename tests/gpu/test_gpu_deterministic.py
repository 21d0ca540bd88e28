"""SOK1X_DETERMINISTIC=1: the same program gives the same bits: tables, moments, index, on one rank and several."""
import os

import pytest
from ranks import run_ranks

from sok1x.cuda_kernels import gpu

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "program_deterministic.py")


@pytest.mark.skipif(not gpu.count(), reason="PyCUDA finds no GPU")
@pytest.mark.parametrize("ranks", [1, 2])
def test_a_run_repeats_bit_for_bit(ranks):
    digests = [sorted(line for line in run_ranks(
        ranks, PROGRAM, env={"SOK1X_DETERMINISTIC": "1", "SOK1X_TEST_DEVICE": "gpu"}).out.splitlines()
        if line.startswith("digest")) for _ in range(2)]
    assert len(digests[0]) == ranks and digests[0] == digests[1], digests

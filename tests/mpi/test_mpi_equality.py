"""The same training on 1, 2 and 4 ranks and in stock TensorFlow ends with the same losses and the same tables."""
import os

import equality_model as model
import numpy as np
import pytest
from ranks import run_ranks

HERE = os.path.dirname(os.path.abspath(__file__))


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_equals_stock_tensorflow(ranks, seed, tmp_path):
    out = str(tmp_path / "out.npz")
    run_ranks(ranks, os.path.join(HERE, "program_equality.py"), out, seed, timeout=240)
    results = np.load(out)
    for case in model.CASES:
        for optimizer in case.optimizers:
            got = {part: results["{}/{}/{}".format(case.name, optimizer, part)]
                   for part in ("dense0", "sparse0", "dense1", "sparse1", "losses")}
            losses, tables = model.train_stock(case, optimizer, seed, got["dense0"], got["sparse0"])
            message = "{} {} on {} ranks".format(case.name, optimizer, ranks)
            assert abs(got["dense1"] - got["dense0"]).max() > 1e-3, message
            np.testing.assert_allclose(got["losses"], losses, rtol=1e-5, err_msg=message)
            np.testing.assert_allclose(got["dense1"], tables[0], rtol=1e-5, atol=1e-6, err_msg=message)
            np.testing.assert_allclose(got["sparse1"], tables[1], rtol=1e-5, atol=1e-6, err_msg=message)

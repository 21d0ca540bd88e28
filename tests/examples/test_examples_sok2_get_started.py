"""SOK 2.x's get-started, as it is and under SOK's own module name."""
import os
import re

import kit_files
import numpy as np
import pytest
from ranks import run_ranks

SCRIPT = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "legacy_examples",
                      "sok2_get_started.py")
RENAMED = ("import sok1x\nsok1x.install_as_sparse_operation_kit()\n",
           "import sparse_operation_kit as sok\n")


@pytest.mark.parametrize("ranks", [1, 2])
def test_it_trains_dumps_and_loads(ranks, tmp_path):
    with open(SCRIPT) as file:
        text = file.read()
    assert text.count("import sok1x as sok\n") == 1
    if ranks == 1:  # a script whose import is not changed
        text = text.replace("import sok1x as sok\n", "".join(RENAMED))
    out = run_ranks(ranks, text, "--steps", 60, "--folder", str(tmp_path), timeout=180).out
    losses = [float(loss) for loss in re.findall(r"loss ([\d.]+)$", out, re.MULTILINE)]
    first, trained, zeros, loaded = losses[0], losses[-3], losses[-2], losses[-1]
    assert len(losses) == 6, out  # rank 0 alone prints
    assert 0.6 < first < 0.75 and trained < 0.15 and zeros > 0.5 and loaded == pytest.approx(trained, abs=1e-4), out
    found = kit_files.read(str(tmp_path / "weights"))
    assert found["items_0"].values.shape == (1000, 16) and found["groups_0"].keys.tolist() == list(range(20))
    assert sorted(found["items_0"].slots) == ["m", "v"] and np.abs(found["items_0"].slots["m"]).max() > 0

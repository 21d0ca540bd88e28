"""The benchmark of checkpoints runs and reports everything; its figures are nobody's business here."""
import json
import os

import pytest
from ranks import run_ranks

BENCHMARK = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "benchmarks",
                         "checkpoint.py")


@pytest.mark.parametrize("ranks", [0, 2])
def test_runs_and_reports(ranks, tmp_path):
    name = str(tmp_path / "out")
    # Progress goes to stderr, and there is no commit to tell.
    finished = run_ranks(ranks, BENCHMARK, "--rows", 5000, "--dim", 8, "--slots", 2, "--rounds", 2, "--device", "cpu",
                         "--folder", tmp_path, "--commit", "none", "--name", name, check=False)
    assert finished.code == 0, str(finished)
    with open(name + ".json") as file:
        report = json.load(file)
    assert not report["failed"] and report["ranks"] == max(1, ranks)
    for what in ("dd write", "save", "dd read", "restore", "dump"):
        assert report["seconds of"][what]["count"] == 2 and report["seconds of"][what]["median"] > 0
    # Rows, m and v of Adam, keys and stamps.
    assert report["bytes"] > 5000 * (3 * 8 * 4 + 8 + 8)
    assert set(report["peak memory growth, bytes"]) == {"first save", "save", "restore", "dump"}
    assert os.listdir(str(tmp_path)) == ["out.json"], "it removes what it wrote"

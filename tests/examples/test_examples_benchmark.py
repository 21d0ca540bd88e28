"""The embedding benchmark runs and reports every case; its figures are nobody's business here."""
import json
import os
import subprocess
import sys

from tensorflow2_skips import ON_TENSORFLOW_2

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def test_every_case_is_measured(tmp_path):
    out = subprocess.run(
        [sys.executable, os.path.join(ROOT, "benchmarks", "embedding.py"), "--samples", "8", "--vocabulary", "4096",
         "--rounds", "2", "--steps", "2", "--repeats", "1", "--modes", "forward", "lazyadam", "--bind", "none",
         "--profile", "--name", str(tmp_path / "small")],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, timeout=180)
    assert out.returncode == 0, out.stderr[-4000:]
    with open(str(tmp_path / "small.json")) as file:
        report = json.load(file)
    assert report["versions"]["tensorflow"] and report["hardware"]["cores"] and report["date"]
    for group, ranks, baseline in zip(report["comparisons"], (1, 2), ("stock", "horovod")):
        assert (group["ranks"], group["baseline"]) == (ranks, baseline)
        assert group["about"]["kernel threads"] == group["threads"]
        assert [(case["layout"], case["mode"]) for case in group["cases"]] == [
            ("dense", "forward"), ("dense", "lazyadam"), ("sparse", "forward"), ("sparse", "lazyadam")]
        for case in group["cases"]:
            assert case["ms"][baseline]["steps"] == case["ms"]["sok1x"]["steps"] == 4 and case["ratio"] > 0
            # The lookup is in the peer's step, and not only where it is all that is asked for.
            # TensorFlow 2 may sum a whole table's rows up by their numbers, as one op.
            lookups = ("ResourceGather (embedding_lookup", "SparseSegmentSum (embedding_lookup_sparse")
            assert any(name.startswith(lookups[:1 + ON_TENSORFLOW_2]) for name in case["profile"][baseline]), case
            assert "whole step" in case["profile"]["library"]
            if ranks == 2:
                assert 0 < case["bytes"]["sok1x"] < case["bytes"]["sok1x without distinct keys"]

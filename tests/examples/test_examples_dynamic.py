"""The benchmark of tables that grow and forget runs and reports every case; its figures are nobody's business here."""
import json
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def test_every_case_is_measured(tmp_path):
    out = subprocess.run(
        [sys.executable, os.path.join(ROOT, "benchmarks", "dynamic.py"), "--tiny", "--device", "cpu", "--name",
         str(tmp_path / "small"), "--hybrid-warm", "24", "--hybrid-steps", "14"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, timeout=300)
    assert out.returncode == 0, out.stderr[-4000:]
    with open(str(tmp_path / "small.json")) as file:
        report = json.load(file)
    assert report["failed"] == {} and report["versions"]["tensorflow"]
    assert [case["case"] for case in report["cases"]] == ["growth", "grown", "eviction", "hybrid", "find", "half"]
    growth, grown, eviction, hybrid, _, _ = report["cases"]
    assert set(grown["ms"]) == {"fixed", "grown"} and set(eviction["ms"]) == {"resident", "inserting", "evicting"}
    assert all("target" not in case and case["times"] > 0 for case in report["cases"])
    # A position in ten asks for a new key; what leaves comes back in part.
    assert 0.1 * 16 * 4 < eviction["evicted in a step"] < 16 * 4
    # Of distinct keys a tenth of the vocabulary has the most popular ones, and what comes goes again.
    moved = hybrid["a step"]
    assert 0 < hybrid["hit rate"] < 1 and abs(hybrid["hit rate"] - hybrid["hit rate of an exact LRU"]) < 0.1
    assert 0 < moved["fetched"] < 64
    # Behind steps alone: what leaves the cache has been trained, all of it.
    assert 0.95 * moved["fetched"] <= moved["written back"] <= moved["fetched"]
    # Rows, m and v of D = 8 floats, stamps, 16 bytes for each of the index's slots, which are twice as many in the end.
    assert growth["bytes after"] > 4096 * (3 * 8 * 4 + 8)

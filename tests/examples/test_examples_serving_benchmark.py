"""The benchmark of serving runs and reports every form; its figures are nobody's business here."""
import json
import os
import subprocess
import sys

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


@pytest.mark.slow
def test_every_form_is_measured(tmp_path):
    out = subprocess.run(
        [sys.executable, os.path.join(ROOT, "benchmarks", "serving.py"), "--tiny", "--name", str(tmp_path / "small")],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, timeout=300)
    assert out.returncode == 0, out.stderr[-4000:]
    with open(str(tmp_path / "small.json")) as file:
        report = json.load(file)
    assert report["failed"] == {} and set(report["forms"]) == {"table", "table16", "search", "rows"}
    assert all(report["forms"][form]["differs by"] == 0 for form in ("table", "search"))
    assert report["forms"]["table16"]["bytes"] < report["forms"]["table"]["bytes"]
    assert set(report["sok1x"]) == set(report["forms"]["table"]["ms"])

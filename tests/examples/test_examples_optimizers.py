"""The optimizers' benchmark runs and reports every case; its figures are nobody's business here."""
import json
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def test_every_case_is_measured(tmp_path):
    out = subprocess.run(
        [sys.executable, os.path.join(ROOT, "benchmarks", "optimizers.py"), "--tiny", "--device", "cpu", "--layouts",
         "dense", "sparse", "--name", str(tmp_path / "small")],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, timeout=300)
    assert out.returncode == 0, out.stderr[-4000:]
    with open(str(tmp_path / "small.json")) as file:
        report = json.load(file)
    assert report["failed"] == {} and report["versions"]["tensorflow"]
    lazy, adam, plugin = "tf.keras LazyAdamOptimizer", "tf.keras Adam", "optimizers.Adam"
    assert [(case["optimizer"], case["layout"], case["mode"]) for case in report["cases"]] == [
        (name, layout, mode) for name, layout in ((lazy, "dense"), (lazy, "sparse"), (adam, "dense"), (plugin, "dense"))
        for mode in ("update", "step")]
    for case in report["cases"]:
        assert case["stock / sok1x"] > 0 and case["fused bytes"] > 0 and "target" not in case
        recorded = case["kernels"]["events"]
        kernels = {row["kernel"] for row in recorded["by kernel"]}
        assert ("lazy_adam" if case["optimizer"] == lazy else "adam") in kernels
        # The step's lookup is part of it.
        assert bool({"look_up", "lookup forward_alone"} & kernels) == (case["mode"] == "step")
        # Of the update equal indices are still to be added up; a lookup's gradient has none.
        assert {"unique", "segment_sum"} < kernels or case["mode"] == "step"
        assert 0 < recorded["fused"]["median"] < recorded["all"]["median"]

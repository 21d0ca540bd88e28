"""The optimizers' benchmark runs and reports every case; its figures are nobody's business here."""
import argparse
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


def test_a_step_that_adds_gradients_up_is_judged_with_them(monkeypatch):
    """And where no kernel is known to be the optimizer's, nothing is."""
    monkeypatch.syspath_prepend(os.path.join(ROOT, "benchmarks"))
    import optimizers
    import optimizers_sides

    from sok1x.cuda_kernels import group_steps

    assert set(optimizers_sides.WITH_SUMS) < set(optimizers_sides.FUSED)
    assert {name for name in optimizers_sides.FUSED if name.startswith("group_")} < set(group_steps.KERNELS)
    benchmark = object.__new__(optimizers.Benchmark)
    benchmark.options = argparse.Namespace(tiny=False, dim=4, vocabulary=100)
    benchmark.device = argparse.Namespace(gpu="a GPU")
    benchmark.batches = {"sparse": [argparse.Namespace(bags=20)]}
    benchmark.report = {"copy": {"bytes/s": 1e6}}
    clock = {"clock": "CUPTI", "fused": {"median": 2.0}}
    for mode, kernel, rows in (("step", "group_plain_lazy_adam_sums", 20), ("update", "group_lazy_adam_sums", 50),
                               ("update", "group_lazy_adam", 10)):
        case = {"optimizer": "tf.keras LazyAdamOptimizer", "layout": "sparse", "mode": mode, "keys": 50, "distinct": 10,
                "fused bytes": 7 * 16 * 10, "kernels": {"trace": dict(clock, **{"by kernel": [{"kernel": kernel}]})}}
        benchmark.cases = [case]
        benchmark.judge()
        assert case["floor ms"] == round((rows + 6 * 10) * 16 / 1e3, 4)
        assert case["target"]["reached"] == (case["fused / floor"] <= 1.5)
    benchmark.cases = [dict(case, kernels={"trace": {"clock": "CUPTI", "fused": {"median": 0.0}}}),
                       dict(case, kernels={"events": dict(clock, clock="CUDA events")})]
    for each in benchmark.cases:
        del each["target"], each["fused / floor"]
    benchmark.judge()
    assert not any("target" in each or "fused / floor" in each for each in benchmark.cases)

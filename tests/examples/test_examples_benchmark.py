"""The embedding benchmark runs and reports every case; its figures are nobody's business here."""
import json
import os
import subprocess
import sys

import pytest
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
            assert set(case["losses"]) == {baseline, "sok1x"}
            for before, step in case["losses"].values():
                assert before > 0 and (step == 0) == (case["mode"] == "forward")
            # The lookup is in the peer's step, and not only where it is all that is asked for.
            # TensorFlow 2 may sum a whole table's rows up by their numbers, as one op.
            lookups = ("ResourceGather (embedding_lookup", "SparseSegmentSum (embedding_lookup_sparse")
            assert any(name.startswith(lookups[:1 + ON_TENSORFLOW_2]) for name in case["profile"][baseline]), case
            assert "whole step" in case["profile"]["library"]
            if ranks == 2:
                assert 0 < case["bytes"]["sok1x"] < case["bytes"]["sok1x without distinct keys"]


@pytest.mark.parametrize("losses, agree", [
    ([100.0, 2.0], True), ([100.0, 2.0001], True), ([100.0, 1.0], False), ([100.1, 2.0], False),
    ([float("nan"), 2.0], False), ([100.0, float("nan")], False)])
def test_sides_that_do_not_do_the_same_are_refused(monkeypatch, losses, agree):
    monkeypatch.syspath_prepend(os.path.join(ROOT, "benchmarks"))
    import embedding
    case = {"layout": "dense", "mode": "sgd", "losses": {"stock": [100.0, 2.0], "sok1x": losses}}
    if agree:
        embedding.expect_agreement(case, "stock")
    else:
        with pytest.raises(SystemExit, match="dense sgd: stock and sok1x do not agree"):
            embedding.expect_agreement(case, "stock")


def test_no_gpu_is_taken(monkeypatch):
    """What is measured on the CPU would be placed on a GPU that is there."""
    monkeypatch.syspath_prepend(os.path.join(ROOT, "benchmarks"))
    import embedding
    monkeypatch.setattr(embedding.jobs, "start", lambda *given: given)
    assert embedding.run([], {"threads": 2, "allocator": "default"})[-1]["CUDA_VISIBLE_DEVICES"] == ""


_RAN = """
import sys
sys.path.insert(0, {folder!r})
import argparse
import numpy as np
import tensorflow.compat.v1 as tf
tf.disable_v2_behavior()
import gpu_sides
import whole_steps
from sides import SIDES
from workload import make_batches

def ran(session, step):
    found = tf.RunMetadata()
    session.run(step, options=tf.RunOptions(output_partition_graphs=True), run_metadata=found)
    print(step.name, *sorted({{node.op for graph in found.partition_graphs for node in graph.node}}), sep=",")

options = dict(samples=8, slots=4, dim=8, vocabulary=64, batches=1, seed=1, exchange="auto")
for layout in ("dense", "sparse"):
    batches = make_batches(layout, options, 0)
    options["keys"] = {{layout: len(batches[0].keys)}}
    for name in ("stock", "sok1x"):
        side = SIDES[name](layout, "forward", options, whole_steps.config(), 1)
        side.select(batches[0])
        ran(side.session, side.step_op)
        side.close()
    given = argparse.Namespace(device_name="/cpu:0", **options)
    for made in (gpu_sides.Stock, gpu_sides.Sok1x):
        side = made(layout, batches, ["forward", "top"], given, gpu_sides.session_config())
        side.select(0)
        ran(side.session, side.steps["forward"])
        ran(side.session, side.steps["top"])
        side.close()
"""


def test_all_of_a_forward_is_run():
    """Only its end is asked for: TensorFlow must not leave out what has no other effect than its result."""
    out = subprocess.run([sys.executable, "-c", _RAN.format(folder=os.path.join(ROOT, "benchmarks"))],
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, timeout=180)
    assert out.returncode == 0, out.stderr[-4000:]
    steps = [set(line.split(",")[1:]) for line in out.stdout.splitlines()]
    assert len(steps) == 12, out.stdout
    for summed, (stock, ours, gpu_stock, stock_top, gpu_ours, our_top) in zip((False, True), (steps[:6], steps[6:])):
        for ran in (stock, gpu_stock):
            assert "SparseSegmentSum" in ran if summed else "ResourceGather" in ran, ran
            # TensorFlow 2 sums the table's rows up by their numbers, without a copy of them.
            assert {"ResourceGather", "Unique"} <= ran or ON_TENSORFLOW_2 or not summed, ran
        assert "Sok1xLookup" in ours and "Sok1xLookup" in gpu_ours
        assert "Sub" in stock_top and "Sub" in our_top

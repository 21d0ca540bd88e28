"""The benchmarks of many tables and of a whole DLRM run through; their figures are nobody's business here."""
import json
import os
import subprocess
import sys

import numpy as np
import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def run(program, path, *arguments):
    out = subprocess.run([sys.executable, os.path.join(ROOT, "benchmarks", program), "--tiny", "--device", "cpu",
                          "--name", path] + list(arguments),
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, timeout=240)
    assert out.returncode == 0, out.stderr[-4000:]
    with open(path + ".json") as file:
        report = json.load(file)
    assert report["failed"] == {} and report["date"] and report["versions"]["tensorflow"]
    assert report["hardware"]["cores"] and report["options"]["tiny"]
    return report


def test_many_tables_are_measured_on_one_rank_and_on_two(tmp_path):
    report = run("many_tables.py", str(tmp_path / "tables"), "--layouts", "mixed", "--tables", "3")
    assert [(case["ranks"], case["layout"], case["tables"], case["baseline"]) for case in report["cases"]] == [
        (1, "mixed", 3, "stock"), (2, "mixed", 3, "horovod")]
    for case in report["cases"]:
        assert set(case["sides"]) == {"sok1x", case["baseline"]} and case["about"]["kernel threads"] > 0
        assert case["tables"] <= case["distinct"] <= case["tables"] * 16
        assert set(case["ratio"]) == {"forward", "step"} and min(case["ratio"].values()) > 0
        for side in case["sides"].values():
            assert set(side["seconds"]) == {"graph", "initialize", "first step"}
            assert min(side["seconds"].values()) > 0 and side["samples/s"] > 0
            for ms in side["ms"].values():
                assert ms["median"] > 0 and ms["count"] == 4


@pytest.mark.slow
def test_every_layout_and_chosen_sizes(tmp_path):
    report = run("many_tables.py", str(tmp_path / "tables"), "--ranks", "1", "--tables", "1", "2", "--modes", "step",
                 "--samples", "5", "--vocabulary", "33")
    assert [(case["layout"], case["tables"]) for case in report["cases"]] == [
        (layout, tables) for layout in ("uniform", "mixed") for tables in (1, 2)]
    for case in report["cases"]:
        assert set(case["ratio"]) == {"step"} and case["distinct"] <= 5 * case["tables"]


@pytest.mark.parametrize("ranks, ids, peer, arguments", [
    (1, "several", "stock", ["--ids-form", "ragged"]),
    pytest.param(2, "one", "horovod", ["--modes", "step"], marks=pytest.mark.slow)])
def test_lookup_sparse_of_many_tables_is_measured_and_the_sides_agree(tmp_path, ranks, ids, peer, arguments):
    report = run("many_tables.py", str(tmp_path / "sparse"), "--sparse", "--ranks", str(ranks), "--ids", ids,
                 "--tables", "2", *arguments)
    case, = report["cases"]
    assert (case["ranks"], case["ids"], case["tables"], case["baseline"]) == (ranks, ids, 2, peer)
    modes = {"sgd", "adam", "lazyadam"} | (set() if "--modes" in arguments else {"forward"})
    assert set(case["sides"]) == {"lookup_sparse", "layers", peer}
    for name, side in case["sides"].items():
        assert set(side["ms"]) == modes and all(ms["median"] > 0 and ms["count"] == 4 for ms in side["ms"].values())
        assert set(side["seconds"]) == {"graph", "initialize"} | {"first " + mode for mode in modes}
        if name != "lookup_sparse":
            assert set(case["times"][name]) == modes and min(case["times"][name].values()) > 0
    assert case["target"] == {"times": 1.1, "of": "layers", "reached": {
        mode: times <= 1.1 for mode, times in case["times"]["layers"].items()}}
    # The same steps from the same rows: one of SGD and each Adam takes rows of ones further than the tolerance.
    losses = case["losses"]
    assert set(losses) == set(case["sides"])
    np.testing.assert_allclose(list(losses.values()), losses["lookup_sparse"], rtol=1e-5)


@pytest.mark.parametrize("stock, agree", [(1000.05, True), (1001.0, False), (float("nan"), False)])
def test_sides_that_do_not_agree_are_refused(monkeypatch, stock, agree):
    monkeypatch.syspath_prepend(os.path.join(ROOT, "benchmarks"))
    import many_tables
    losses = {"lookup_sparse": 1000.0, "layers": 1000.0, "stock": stock}
    if agree:
        many_tables.expect_agreement(losses)
    else:
        with pytest.raises(RuntimeError, match="the sides do not agree"):
            many_tables.expect_agreement(losses)


def test_dlrm_is_measured_and_its_ranks_agree(tmp_path):
    report = run("dlrm.py", str(tmp_path / "dlrm"))
    sides = ["dense alone", "sok1x", "stock"]
    assert [group["ranks"] for group in report["groups"]] == [1, 2]
    for group, expected in zip(report["groups"], (sides, sides[:2])):
        assert set(group["modes"]) == {"forward", "step"}
        for cases in group["modes"].values():
            assert sorted(cases) == expected
            assert all(case["ms"]["median"] > 0 and case["samples/s"] > 0 for case in cases.values())
            assert ["above ms" in cases[side] for side in expected] == [side != "dense alone" for side in expected]
        for found in (group["agreement"][side] for side in expected):
            assert found["loss equal"] and found["dense equal"] and found["dense variables differ by"] == 0
            assert len(found["loss of one batch"]) == group["ranks"] and found["dense variables"] > 0
            assert all(0.5 < loss < 1 for loss in found["loss of one batch"])  # a mean: that of guessing is 0.69


def test_a_device_that_is_not_there_is_an_error(tmp_path):
    for program in ("many_tables.py", "dlrm.py"):
        out = subprocess.run([sys.executable, os.path.join(ROOT, "benchmarks", program), "--tiny", "--device", "gpu"],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, timeout=300,
                             env=dict(os.environ, CUDA_VISIBLE_DEVICES=""))
        assert out.returncode == 1 and "no GPU" in out.stderr, out.stderr[-4000:]


@pytest.mark.slow
def test_dcnv2_is_measured_beside_stock_and_horovod(tmp_path):
    report = run("dcnv2.py", str(tmp_path / "dcnv2"), "--optimizer", "sgd", "--profile")
    ours, stock = {"group", "columns", "dense"}, {"stock", "stock columns"}
    assert [(case["ranks"], case["batch in total"], set(case["sides"])) for case in report["cases"]] == [
        (1, 16, ours | stock), (2, 16, ours | {"horovod", "horovod dense"})]
    for case in report["cases"]:
        assert all(side["ms"]["median"] > 0 and side["steps/s"] > 0 for side in case["sides"].values())
        assert set(case["losses"]) == set(case["seconds"]) == set(case["sides"]) == set(case["traces"])
        for name, side in case["sides"].items():
            dense = case["sides"]["horovod dense" if "horovod" in name else "dense"]
            assert (side is dense) == ("ms without the dense part" not in side)
            assert side is dense or side["ms without the dense part"] == pytest.approx(
                side["ms"]["median"] - dense["ms"]["median"], abs=1e-3)
        nodes = {name: sum(trace["in graphs"].values()) for name, trace in case["traces"].items()}
        assert nodes["dense"] < min(nodes["group"], nodes["columns"])
        assert {"Sok1xLookups", "Sok1xUpdates"} <= set(case["traces"]["group"]["in graphs"])
        for trace in case["traces"].values():
            assert trace["us"] > trace["idle us"] >= 0 and trace["ops"] and sum(trace["nodes"].values()) > 26
    assert len(report["targets"]) == 6 and all(target["is"] > 0 for target in report["targets"])


@pytest.mark.slow
def test_dcnv2_is_measured_with_lazy_adam(tmp_path):
    report = run("dcnv2.py", str(tmp_path / "dcnv2"), "--ranks", "1", "--sides", "group", "stock", "--batch", "8")
    case, = report["cases"]
    assert set(case["sides"]) == {"group", "stock"} and case["batch in total"] == 8
    assert report["options"]["optimizer"] == "lazyadam" and report["without the dense part"] == []

"""The GPU benchmarks run through, here on the host in small sizes; their figures are nobody's business here."""
import argparse
import contextlib
import importlib
import json
import os
import pkgutil
import subprocess
import sys

import pytest

from sok1x import cuda_kernels
from sok1x.cuda_kernels import backend, group_steps

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BENCHMARKS = os.path.join(ROOT, "benchmarks")


def run(program, *arguments):
    out = subprocess.run([sys.executable, os.path.join(BENCHMARKS, program + ".py")] + list(arguments),
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, timeout=300)
    assert out.returncode == 0, out.stderr[-4000:]
    return out.stdout


@pytest.fixture
def benchmark_modules(monkeypatch):
    """That `import` finds the benchmarks' modules."""
    monkeypatch.syspath_prepend(BENCHMARKS)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """A folder with the reports of all three."""
    folder = str(tmp_path_factory.mktemp("results"))
    for name in ("gpu_embedding", "gpu_hash", "gpu_scaling"):
        run(name, "--tiny", "--device", "cpu", "--name", os.path.join(folder, name))
    return folder


def load(folder, name):
    with open(os.path.join(folder, name + ".json")) as file:
        report = json.load(file)
    assert report["failed"] == {} and report["date"] and report["versions"]["tensorflow"]
    return report


def test_lookups_and_steps(results):
    report = load(results, "gpu_embedding")
    assert report["copy"]["bytes/s"] > 0
    assert [(case["layout"], case["mode"]) for case in report["cases"]] == [
        (layout, mode) for layout in ("dense", "sparse")
        for mode in ("forward", "forward training", "sgd", "lazyadam", "top")]
    for case in report["cases"]:
        assert case["floor bytes"] > 0 and case["whole"]["sok1x"]["median"] > 0
        if case["mode"] == "top":
            continue
        assert set(case["whole"]["ms to wait for the GPU afterwards"]) == {"sok1x", "stock"} & set(case["whole"])
        assert ("stock" in case["whole"]) == (case["mode"] != "forward training")
        kernels = {row["kernel"] for row in case["kernels"]["sok1x"]["events"]["by kernel"]}
        lookups = {"look_up", "lookup forward_alone"} & kernels
        assert lookups  # each step's lookup is part of it, and so is its update
        assert {"sgd": "descend", "lazyadam": "lazy_adam"}.get(case["mode"], *lookups) in kernels


def test_hash_operations(results):
    report = load(results, "gpu_hash")
    assert [case["new keys"] for case in report["cases"]] == 3 * [0, 0, 13, 128]
    assert all(case["kernels"]["events"]["10^9 keys/s"] > 0 for case in report["cases"])


def test_scaling(results):
    report = load(results, "gpu_scaling")
    assert [group["ranks"] for group in report["groups"]] == [1, 2]
    for case in report["groups"][1]["cases"]:
        recorded = case["recorded"]["events"]
        assert case["efficiency"] > 0 and min(recorded["exchange"]) > 0
        for span, wall, busy, idle in zip(*(recorded[name] for name in ("span", "session.run", "busy", "idle"))):
            assert 0 < busy <= span < wall
            # Of the steps that are timed: those that are recorded take longer.
            assert idle == round(max(0, 1 - busy / case["ms"]["median"]), 4)
        assert 0 < case["bytes"]["sok1x"] < case["bytes"]["sok1x without distinct keys"]


def test_notes_take_their_figures_from_the_reports(results, tmp_path):
    notes = tmp_path / "notes.md"
    with open(os.path.join(BENCHMARKS, "GPU_NOTES.md")) as file:
        notes.write_text(file.read())
    arguments = ("--results", results, "--notes", str(notes), "--write")
    run("gpu_notes", *arguments)
    text = notes.read_text()
    line, = [line for line in text.split("\n") if line.startswith("| `lazy_adam` |")]
    said = line.replace(line.split(" | ")[-1], "memory |")
    notes.write_text(text.replace(line, said))
    run("gpu_notes", *arguments)
    assert notes.read_text() == text.replace(line, said)


def test_only_what_sees_all_kernels_is_judged(benchmark_modules):
    """By events a step of C++'s kernels takes no time."""
    import gpu_embedding
    benchmark = object.__new__(gpu_embedding.Benchmark)
    benchmark.options, benchmark.device = argparse.Namespace(tiny=False), argparse.Namespace(gpu="a GPU")
    events = {"clock": "CUDA events", "kernels": {"median": 0.0}}
    trace = {"clock": "CUPTI", "kernels": {"median": 0.9}}
    for recorded, kernels in (({"events": events}, None), ({"events": events, "trace": trace}, 0.9), ({}, None)):
        case = {"kernels": {"sok1x": recorded}, "whole": {"sok1x": {"median": 1.8}}, "floor ms": 0.3}
        benchmark.cases = {("dense", "lazyadam"): case}
        benchmark.judge()
        assert case["whole / floor"] == 6.0 and case["targets"]["whole"] == {"ms": 2.0, "reached": True}
        if kernels is None:
            assert "kernels / floor" not in case and "kernels" not in case["targets"]
        else:
            assert case["kernels / floor"] == 3.0 and case["targets"]["kernels"] == {"ms": 0.75, "reached": False}


class _Gpu:
    """What C++ knows of a GPU, `seen`, beside the attribute that Python has."""

    deterministic = False

    def __init__(self):
        self.seen = group_steps.GroupDevice()

    def active(self):
        return contextlib.nullcontext()


def test_deterministic_runs_are_so_for_cpp_too(benchmark_modules, monkeypatch):
    """Its steps ask for the GPU once, when they are set up."""
    import gpu_embedding
    gpu, ran = _Gpu(), {True: [], False: []}
    monkeypatch.setattr(group_steps, "_devices", {gpu: argparse.Namespace(made=gpu.seen)})
    benchmark = object.__new__(gpu_embedding.Benchmark)
    benchmark.options = argparse.Namespace(rounds=2, steps=3, batches=2, recorded=4)
    benchmark.device, benchmark.cases = argparse.Namespace(gpu=gpu), {("dense", "sgd"): {}}
    benchmark.sides = {("dense", "sok1x"): argparse.Namespace(
        select=lambda number: None, run=lambda mode: ran[gpu.deterministic].append(gpu.seen.deterministic))}
    kernels = {"trace": "sums", "deterministic trace": "sums"}
    benchmark.record = lambda *given: ran[True].append(gpu.seen.deterministic)
    benchmark.deterministic()
    assert ran == {True: 7 * [1], False: 6 * [0]} and not gpu.deterministic and not gpu.seen.deterministic
    case = benchmark.cases["dense", "sgd"]
    assert case["deterministic"]["whole"]["count"] == case["deterministic"]["whole without"]["count"] == 4
    # What it costs is not measured where no other kernels run.
    case["kernels"] = {"sok1x": {clock: {"by kernel": [{"kernel": name}]} for clock, name in kernels.items()}}
    with pytest.raises(RuntimeError, match="dense sgd: a deterministic step has the kernels of any other"):
        benchmark.trace_deterministic(None)
    assert ran[True][-1] == 1 and not gpu.deterministic and not gpu.seen.deterministic
    case["kernels"]["sok1x"]["deterministic trace"]["by kernel"][0]["kernel"] = "sums in order"
    benchmark.trace_deterministic(None)


def test_floors_are_written_for_the_kernels_as_they_are(benchmark_modules):
    import gpu_floors
    for info in pkgutil.iter_modules(cuda_kernels.__path__):
        if not info.name.startswith("_") and info.name not in ("build_host",):
            importlib.import_module("sok1x.cuda_kernels." + info.name)
    declared = {name: len(signature.arguments) for name, signature in backend._signatures.items()}
    for name, (count, _) in gpu_floors._BYTES.items():
        assert name in ("clear", "copy") or declared.get(name) == count, name
    on_gpu = {name for name, signature in backend._signatures.items() if signature.threads is not None}
    print("without a floor: {}".format(sorted(on_gpu - set(gpu_floors._BYTES))))

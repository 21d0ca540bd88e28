"""The benchmark of two TensorFlows: whose figures it takes, how it divides them, and that it runs."""
import argparse
import json
import os
import subprocess
import sys

import pytest
from ranks import environment

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "benchmarks"))

import two_tensorflows  # noqa: E402


def test_ours_are_taken_each_under_a_name_of_its_own():
    report = {"cases": [{"layout": "dense", "mode": "sgd", "ms": {"sok1x": {"median": 3.0}, "stock": {"median": 9.0}}},
                        {"layout": "dense", "mode": "forward", "ms": {"sok1x": {"median": 1.0, "least": 0.5}}}],
              "seconds of": {"save": {"median": 0.5}, "dd write": {"median": 0.2}}, "hardware": {"cores": 2}}
    assert two_tensorflows.figures(report) == {"cases dense sgd ms sok1x": 3.0, "cases dense forward ms sok1x": 1.0,
                                               "seconds of save": 0.5}


def test_what_two_entries_would_share_is_refused():
    case = {"layout": "dense", "ms": {"median": 1.0}}
    with pytest.raises(ValueError, match="two figures of the name 'cases dense ms'"):
        two_tensorflows.figures({"cases": [case, case]})


def test_each_round_is_divided_by_itself():
    """A machine that is twice as slow in one round says nothing of either."""
    line, = two_tensorflows.compare([[{"a": 1.0}, {"a": 1.1}], [{"a": 2.0}, {"a": 2.0}], [{"a": 1.0}, {"a": 1.5}]])
    assert line == {"figure": "a", "medians": [1.0, 1.5], "rounds": [[1.0, 2.0, 1.0], [1.1, 2.0, 1.5]], "ratio": 1.1,
                    "ratios": [1.0, 1.5]}


def test_a_benchmark_s_own_figure_is_taken_where_that_is_a_mean():
    """Most steps forget nothing: their median knows nothing of those that do."""
    of = {"median": 1.0, "mean": 1.4}
    report = {"cases": [{"case": "grown", "ms": {"grown": of}, "compared": "grown / fixed, median"},
                        {"case": "eviction", "ms": {"evicting": of}, "compared": "evicting / inserting, mean"},
                        {"case": "half", "ms": of}]}
    assert two_tensorflows.figures(report) == {"cases grown ms grown": 1.0, "cases eviction ms evicting mean": 1.4,
                                               "cases half ms": 1.0}


def test_what_is_0_is_left_out():
    rounds = [[{"a": 1.0, "b": 0.0, "c": 1.0}, {"a": 1.1, "b": 0.0, "c": 0.0}]]
    assert [line["figure"] for line in two_tensorflows.compare(rounds)] == ["a"]


def test_a_distribution_of_any_name_is_a_tensorflow():
    for versions, shown in (({"tensorflow": "1.15.5"}, "1.15.5"), ({"tensorflow": None}, "?"), ({}, "?"),
                            ({"tensorflow": None, "tensorflow-cpu": "2.15.1"}, "2.15.1"),
                            ({"tensorflow": None, "nvidia-tensorflow": "1.15.5+nv"}, "1.15.5+nv")):
        assert two_tensorflows._tensorflow(versions) == shown


@pytest.mark.parametrize("given, name", [([], "two_tensorflows_cpu"), (["embedding.py", "--name", "b"], ""),
                                         (["--add", "embedding.py"], "two_tensorflows_cpu"),
                                         (["--name", "a", "embedding.py"], "a")])
def test_a_benchmark_alone_does_not_take_the_place_of_all(monkeypatch, given, name):
    monkeypatch.setattr(sys, "argv", ["two_tensorflows.py"] + given)
    assert two_tensorflows.parse().name == name


def test_all_of_the_cpu_s_leave_a_gpu_alone(monkeypatch):
    ran = []

    def run_one(python, benchmark, environment):
        ran.append(environment)
        return {"versions": {}}
    monkeypatch.setattr(two_tensorflows, "run", run_one)
    options = argparse.Namespace(benchmark=[], pythons=["a", "b"], rounds=1)
    two_tensorflows.measure(options, ["dlrm.py"])
    options.benchmark = ["dlrm.py"]
    two_tensorflows.measure(options, ["dlrm.py"])
    assert ran == 2 * [{"CUDA_VISIBLE_DEVICES": ""}] + 2 * [{}]


def run(tmp_path, *given):
    return subprocess.run([sys.executable, os.path.join(ROOT, "benchmarks", "two_tensorflows.py"), "--rounds", "2",
                           "--pythons", sys.executable, sys.executable, "--name", str(tmp_path / "found"),
                           "embedding.py"] + list(given), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          universal_newlines=True, env=environment())


def test_it_runs(tmp_path):
    finished = run(tmp_path, *"--ranks 1 --layouts dense --modes forward sgd --samples 16 --vocabulary 1024 --rounds 1 "
                              "--steps 1 --repeats 1".split())
    assert finished.returncode == 0, finished.stderr
    with open(str(tmp_path / "found.json")) as file:
        measured, = json.load(file)["benchmarks"]
    assert [side["versions"]["sok1x"] for side in measured["sides"]] == ["0.2.0"] * 2
    assert [line["figure"] for line in measured["compared"]] == [
        "comparisons 1 stock cases dense {} ms sok1x".format(mode) for mode in ("forward", "sgd")]
    for line in measured["compared"]:
        assert line["ratios"][0] <= line["ratio"] <= line["ratios"][1] and len(line["rounds"][1]) == 2
        assert line["figure"] in finished.stdout


def test_a_benchmark_that_fails_is_shown(tmp_path):
    finished = run(tmp_path, "--ranks", "none")
    assert finished.returncode == 1 and "invalid int value: 'none'" in finished.stderr, finished.stderr
    assert not (tmp_path / "found.json").exists()

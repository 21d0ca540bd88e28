"""The benchmark of two TensorFlows: whose figures it takes, how it divides them, and that it runs."""
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

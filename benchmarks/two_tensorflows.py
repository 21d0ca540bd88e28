"""Benchmarks of this folder on two TensorFlows in turn: what ours takes on the second, divided by that on the first.

    python benchmarks/two_tensorflows.py                         what `make bench` measures on the CPU, shortened,
                                                                 with .venv's python and .venv-2.15's; prints tables and
                                                                 writes results/two_tensorflows_cpu.json
    python benchmarks/two_tensorflows.py embedding.py --ranks 1  one of them alone, with arguments of its own; writes
                                                                 nothing without --add or a --name before it
    python benchmarks/two_tensorflows.py --pythons FIRST SECOND --name two_tensorflows_gpu gpu_scaling.py --staged 0

A benchmark runs as a whole in each round with the one and with the other, the order turned around from round to round,
so that both meet the machine as it is. A figure of a round is the benchmark's own, a median where it does not say that
it goes by means (ms; of checkpoints seconds); shown are medians over the rounds. What is 0 in a round is left out. Both
environments need what was built of the same sources.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
from statistics import median

import machine

HERE = os.path.dirname(os.path.abspath(__file__))
PEERS = {"stock", "stock columns", "horovod", "dd read", "dd write"}  # sides that are not ours
CPU = ["embedding.py --repeats 1", "many_tables.py --device cpu --layouts uniform --tables 26 --repeats 1",
       "many_tables.py --device cpu --sparse --optimizers sgd lazyadam --repeats 1 --rounds 4",
       "dynamic.py --device cpu", "optimizers.py --device cpu --modes step --rounds 5",
       "dcnv2.py --device cpu --batches-in-total 512 --sides group columns --repeats 1",
       "dlrm.py --device cpu --sides sok1x --rounds 5", "checkpoint.py --device cpu --rows 2000000",
       "serving.py --device cpu --rounds 3"]
_KNOWN = ("ranks", "baseline", "SOK1X_COMMUNICATOR", "layout", "mode", "tables", "ids", "optimizer", "kind", "case",
          "batch in total", "samples", "name")
_ENVIRONMENTS = [os.path.join(machine.ROOT, name, "bin", "python") for name in (".venv", ".venv-2.15")]


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--pythons", nargs=2, default=_ENVIRONMENTS, metavar="PYTHON",
                        help="programs that run a file of Python; may be scripts that set an environment first")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--name", help="of the JSON file; '' writes none, which is the default for a benchmark alone "
                        "without --add; else two_tensorflows_cpu")
    parser.add_argument("--add", action="store_true", help="the file keeps what it has of other benchmarks")
    parser.add_argument("benchmark", nargs=argparse.REMAINDER, help="a file of this folder, and what it is given")
    options = parser.parse_args()
    if options.name is None:
        options.name = "" if options.benchmark and not options.add else "two_tensorflows_cpu"
    return options


def figures(found):
    """{what was measured, as words: its figure} of a benchmark's report, without the sides that are not ours.

    Raises:
        ValueError: two figures have one name.
    """
    named = {}
    for name, value in _figures(found, (), "median"):
        if name in named:
            raise ValueError("two figures of the name '{}': _KNOWN lacks what tells them apart".format(name))
        named[name] = value
    return named


def _figures(found, path, kind):
    """kind: 'median' or 'mean', what the benchmark goes by itself."""
    if isinstance(found, list):
        for number, entry in enumerate(found):
            yield from _figures(entry, path + (_words(entry, number),), kind)
    elif isinstance(found, dict) and "median" in found:
        kind = kind if kind in found else "median"
        yield " ".join(path + ((kind,) if kind != "median" else ())), found[kind]
    elif isinstance(found, dict):
        below_goes_by = found["compared"].split()[-1] if "compared" in found else kind  # dynamic.py: 'A / B, mean'
        for name, below in found.items():
            if name not in PEERS:
                yield from _figures(below, path + (name,), below_goes_by)


def _words(entry, number):
    """What tells an entry of a list from its neighbours: its short values, else its place."""
    words = [str(entry[name]) for name in _KNOWN if isinstance(entry.get(name), (str, int))] if isinstance(
        entry, dict) else []
    return " ".join(words) or str(number)


def run(python, benchmark, environment):
    """The report of one run, with variables besides this process' own."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "found")
        done = subprocess.run([python, os.path.join(HERE, benchmark[0])] + benchmark[1:] + ["--name", path],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True,
                              env=dict(os.environ, **environment))
        if done.returncode:
            sys.exit("{}{} {}: exit code {}".format(done.stdout, python, " ".join(benchmark), done.returncode))
        with open(path + ".json") as file:
            return json.load(file)


def compare(rounds):
    """[what was measured, its medians on both, and of their ratios in each round the median and the ends].

    A figure that is 0 in a round, as one that has been rounded to that, is left out.

    Args:
        rounds: [figures on the first, figures on the second] of each.

    Raises:
        KeyError: a round lacks a figure that the first has.
    """
    compared = []
    for name in rounds[0][0]:
        both = [[sides[number][name] for sides in rounds] for number in (0, 1)]
        if not all(map(all, both)):
            continue
        ratios = [second / first for first, second in zip(*both)]
        compared.append({"figure": name, "medians": [round(median(values), 4) for values in both], "rounds": both,
                         "ratio": round(median(ratios), 3), "ratios": [round(min(ratios), 3), round(max(ratios), 3)]})
    return compared


def measure(options, benchmark):
    """A benchmark's comparison, printed. Those of the CPU, all in turn, leave a GPU alone that is there."""
    environment = {} if options.benchmark else {"CUDA_VISIBLE_DEVICES": ""}
    measured, rounds = dict(machine.describe(), benchmark=" ".join(benchmark), sides=[None, None]), []
    for number in range(options.rounds):
        found = {}
        for side in (0, 1) if number % 2 == 0 else (1, 0):
            found[side] = run(options.pythons[side], benchmark, environment)
            measured["sides"][side] = {name: found[side].get(name) for name in ("versions", "commit", "gpu")}
        rounds.append([figures(found[0]), figures(found[1])])
    measured["compared"] = compare(rounds)
    versions = [_tensorflow(side["versions"]) for side in measured["sides"]]
    print("\n{:80}{:>10}{:>10}{:>8}{:>16}".format(measured["benchmark"], *versions, "ratio", "of the rounds"))
    for line in measured["compared"]:
        print("{:80}{:>10.3f}{:>10.3f}{:>8.2f}{:>9.2f} to{:>5.2f}".format(
            line["figure"], *line["medians"], line["ratio"], *line["ratios"]), flush=True)
    return measured


def _tensorflow(versions):
    """Which one it was, by what a report says of distributions."""
    found = [versions[name] for name in ("tensorflow",) + machine.OTHER_TENSORFLOWS if versions.get(name)]
    return found[0] if found else "?"


def main():
    """Measures, prints, writes."""
    options = parse()
    path, report = os.path.join(HERE, "results", options.name + ".json"), {"benchmarks": []}
    if options.add and os.path.exists(path):
        with open(path) as file:
            report = json.load(file)
    for benchmark in [options.benchmark] if options.benchmark else [line.split() for line in CPU]:
        measured = measure(options, benchmark)
        report["benchmarks"] = [one for one in report["benchmarks"] if one["benchmark"] != measured["benchmark"]]
        report["benchmarks"].append(measured)
        if options.name:
            machine.write(report, path)


if __name__ == "__main__":
    main()

"""Embedding lookups and training steps on the CPU: sok1x against stock TensorFlow and against Horovod.

    python benchmarks/embedding.py                 both comparisons; prints a table, writes benchmarks/results/NAME.json
    python benchmarks/embedding.py --ranks 1 --layouts sparse --modes lazyadam --profile

One rank is compared with tf.nn.embedding_lookup / embedding_lookup_sparse, two with data-parallel training by Horovod's
DistributedOptimizer (forward there: each rank looks up in its own copy, nothing travels). Both sides run in the same
processes on the same CPUs with the same number of threads, in alternating rounds. B is per rank: two ranks train on
twice the samples. A step is timed from session.run to its return, on the slowest rank; figures are medians.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

import machine

HERE = os.path.dirname(os.path.abspath(__file__))
MODES = ("forward", "sgd", "lazyadam")


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2], help="1: against stock; more: against Horovod")
    parser.add_argument("--layouts", nargs="+", choices=("dense", "sparse"), default=["dense", "sparse"])
    parser.add_argument("--modes", nargs="+", choices=MODES, default=list(MODES))
    parser.add_argument("--samples", type=int, default=2048, help="B, samples of each rank")
    parser.add_argument("--slots", type=int, default=26, help="S")
    parser.add_argument("--dim", type=int, default=32, help="D")
    parser.add_argument("--vocabulary", type=int, default=2 ** 20, help="keys in use, of all ranks together")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--steps", type=int, default=4, help="steps of each side in a round")
    parser.add_argument("--batches", type=int, default=4, help="different batches, used in turn")
    parser.add_argument("--exchange", choices=("auto", "all2all", "reduce_scatter"), default="auto")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--bind", default="none", help="mpiexec's --bind-to; none: all ranks may use all CPUs")
    parser.add_argument("--profile", action="store_true", help="also print where the time of a step goes")
    parser.add_argument("--name", default="embedding_cpu", help="of the JSON file; '' writes none")
    return parser.parse_args()


def measure(options, ranks):
    """Runs measure.py on `ranks` ranks and returns what it found."""
    cpus = machine.cpus()
    options = dict(options, baseline="stock" if ranks == 1 else "horovod", threads=max(1, len(cpus) // ranks),
                   inter_op_threads=2)
    environment = dict(os.environ, TF_CPP_MIN_LOG_LEVEL="2", PYTHONWARNINGS="ignore",
                       SOK1X_NUM_THREADS=str(options["threads"]))
    if os.geteuid() == 0:  # as in a container, where Open MPI would refuse
        environment.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    launcher = [] if ranks == 1 else ["mpiexec", "--oversubscribe", "--bind-to", options["bind"], "-np", str(ranks)]
    with tempfile.TemporaryDirectory() as folder:
        given, found = os.path.join(folder, "options.json"), os.path.join(folder, "found.json")
        with open(given, "w") as file:
            json.dump(options, file)
        command = launcher + [sys.executable, os.path.join(HERE, "measure.py"), given, found]
        subprocess.run(command, env=environment, check=True)
        with open(found) as file:
            result = json.load(file)
    return dict(result, ranks=ranks, baseline=options["baseline"], tensorflow_threads=options["threads"],
                inter_op_threads=options["inter_op_threads"], cpus=cpus)


def quantile(values, part):
    values = sorted(values)
    place = part * (len(values) - 1)
    low = int(place)
    high = min(low + 1, len(values) - 1)
    return values[low] + (values[high] - values[low]) * (place - low)


def summarize(case):
    """Replaces a case's times by their quartiles and the ratio of the medians."""
    times = case.pop("times")
    for side, values in times.items():
        case[side + " ms"] = {
            "median": round(quantile(values, 0.5), 3), "least": round(min(values), 3), "steps": len(values),
            "quartiles": [round(quantile(values, 0.25), 3), round(quantile(values, 0.75), 3)]}
    for ratio, figure in (("ratio", "median"), ("ratio of least", "least")):
        case[ratio] = round(case["baseline ms"][figure] / case["sok1x ms"][figure], 2)
    return case


def show(group):
    """Prints one comparison."""
    print("\n{} rank{}, against {}: {} CPUs, {} thread{} a rank".format(
        group["ranks"], "s" if group["ranks"] > 1 else "", group["baseline"], len(group["cpus"]),
        group["tensorflow_threads"], "s" if group["tensorflow_threads"] > 1 else ""))
    print("{:8}{:10}{:>11}{:>11}{:>15}{:>15}{:>8}{:>24}".format(
        "layout", "mode", "keys", "distinct", group["baseline"] + " ms", "sok1x ms", "ratio", "(of shortest steps)"))
    for case in group["cases"]:
        print("{:8}{:10}{:>11,}{:>11,.0f}{:>15.2f}{:>15.2f}{:>8.2f}{:>24.2f}".format(
            case["layout"], case["mode"], case["keys"], case["distinct"], case["baseline ms"]["median"],
            case["sok1x ms"]["median"], case["ratio"], case["ratio of least"]))
    for case in group["cases"]:
        if "bytes" in case:
            print("{:8}{:10}MB sent by a rank in a step: {}".format(case["layout"], case["mode"], ", ".join(
                "{} {:.2f}".format(name, value / 1e6) for name, value in case["bytes"].items())))
    for case in group["cases"]:
        for part, spent in case.get("profile", {}).items():
            print("\n{} {}: {}, ms a step".format(case["layout"], case["mode"], part))
            for name, value in spent.items():
                print("  {:8.3f}  {}".format(value, name))


def main():
    """Measures, prints, writes."""
    arguments = parse()
    options = {name: value for name, value in vars(arguments).items() if name not in ("ranks", "name")}
    report = dict(machine.describe(), options=options, comparisons=[])
    for ranks in arguments.ranks:
        group = measure(options, ranks)
        group["cases"] = [summarize(case) for case in group["cases"]]
        report["comparisons"].append(group)
        show(group)
    if arguments.name:
        path = os.path.join(HERE, "results", arguments.name + ".json")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            json.dump(report, file, indent=1, sort_keys=True)
            file.write("\n")
        print("\nwritten: " + os.path.relpath(path))


if __name__ == "__main__":
    main()

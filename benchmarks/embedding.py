"""Embedding lookups and training steps on the CPU: sok1x against stock TensorFlow and against Horovod.

    python benchmarks/embedding.py          both comparisons: tables, and JSON in benchmarks/results
    python benchmarks/embedding.py --ranks 1 --layouts sparse --modes lazyadam --profile

One rank is compared with tf.nn.embedding_lookup / embedding_lookup_sparse, in one process, in alternating rounds. Two
ranks are compared with data-parallel training by Horovod's DistributedOptimizer (forward there: each rank looks up in
its own copy, nothing travels), in jobs that alternate: Horovod's thread would take time from ours in one process. Both
sides have the same CPUs and numbers of threads. B is per rank: two ranks train on twice the samples. A step is timed
from session.run to its return, on the slowest rank; figures are medians over all rounds and repeats. Before, both sides
take one step from the same rows, and must come to the same loss.
"""
import argparse
import os
import sys

import jobs
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
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--steps", type=int, default=4, help="steps of each side in a round")
    parser.add_argument("--batches", type=int, default=4, help="different batches, used in turn")
    parser.add_argument("--exchange", choices=("auto", "all2all", "reduce_scatter"), default="auto")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--bind", choices=("core", "none"), default="core",
                        help="core: each rank has its own share of the CPUs; none: all ranks may use all")
    parser.add_argument("--allocator", choices=("default", "bfc"), default="default",
                        help="TensorFlow's, of both sides; bfc: TF_CPU_ALLOCATOR_USE_BFC=true")
    parser.add_argument("--repeats", type=int, default=3, help="times that the processes are started anew")
    parser.add_argument("--profile", action="store_true", help="also print where the time of a step goes")
    parser.add_argument("--name", default="embedding_cpu", help="of the JSON file; '' writes none")
    return parser.parse_args()


def measure(options, ranks):
    """Runs measure.py on `ranks` ranks, both sides `repeats` times, and returns what it found."""
    cpus = machine.cpus()
    baseline = "stock" if ranks == 1 else "horovod"
    options = dict(options, ranks=ranks, threads=max(1, len(cpus) // ranks), inter_op_threads=2)
    launcher = jobs.launcher("mpiexec", ranks, options["threads"] if options["bind"] == "core" else 0)
    group = {"ranks": ranks, "baseline": baseline, "CPUs": cpus, "threads": options["threads"],
             "inter-op threads": options["inter_op_threads"], "launcher": " ".join(launcher), "about": {}}
    for repeat in range(options["repeats"]):
        started = [[baseline, "sok1x"]] if ranks == 1 else [[baseline], ["sok1x"]]
        for sides in started if repeat % 2 else reversed(started):
            found = run(launcher, dict(options, sides=sides))
            group["about"].update(found["about"])
            if "cases" not in group:
                group["cases"] = [dict(case, times={}) for case in found["cases"]]
            for case, new in zip(group["cases"], found["cases"]):
                for side, values in new.pop("times").items():
                    case["times"].setdefault(side, []).extend(values)
                for part in ("profile", "losses"):
                    case.setdefault(part, {}).update(new.pop(part, {}))
                case.update(new)
    return group


def run(launcher, options):
    """Starts measure.py and returns what it wrote."""
    environment = {"SOK1X_NUM_THREADS": str(options["threads"]), "CUDA_VISIBLE_DEVICES": ""}  # neither side takes a GPU
    if options["allocator"] == "bfc":
        environment["TF_CPU_ALLOCATOR_USE_BFC"] = "true"
    return jobs.start("measure.py", options, launcher, environment)


def expect_agreement(case, baseline):
    """Exits where both sides have not done the same: the loss before a step, and what the step takes from it."""
    (loss, step), (our_loss, our_step) = case["losses"][baseline], case["losses"]["sok1x"]
    if not (abs(our_loss - loss) <= 1e-5 * loss and abs(our_step - step) <= 1e-4 * abs(step) + 1e-6 * loss):
        sys.exit("{} {}: {} and sok1x do not agree: {}".format(case["layout"], case["mode"], baseline, case["losses"]))


def quantile(values, part):
    values = sorted(values)
    place = part * (len(values) - 1)
    low = int(place)
    high = min(low + 1, len(values) - 1)
    return values[low] + (values[high] - values[low]) * (place - low)


def summarize(case, baseline):
    """Replaces a case's times by their medians, quartiles and least, and the ratios of both sides."""
    times = case.pop("times")
    case["ms"] = {side: {
        "median": round(quantile(values, 0.5), 3), "least": round(min(values), 3), "steps": len(values),
        "quartiles": [round(quantile(values, 0.25), 3), round(quantile(values, 0.75), 3)]}
        for side, values in times.items()}
    for ratio, figure in (("ratio", "median"), ("ratio of least", "least")):
        case[ratio] = float("{:.3g}".format(case["ms"][baseline][figure] / case["ms"]["sok1x"][figure]))
    return case


def show(group):
    """Prints one comparison."""
    baseline, threads = group["baseline"], group["threads"]
    print("\n{} rank{}, against {}: {} CPUs, {} thread{} a rank".format(
        group["ranks"], "s" if group["ranks"] > 1 else "", baseline, len(group["CPUs"]), threads,
        "s" if threads > 1 else ""))
    print("{:8}{:10}{:>10}{:>10}{:>14}{:>14}{:>8}{:>22}".format(
        "layout", "mode", "keys", "distinct", baseline + " ms", "sok1x ms", "ratio", "(of shortest steps)"))
    for case in group["cases"]:
        print("{:8}{:10}{:>10,}{:>10,.0f}{:>14.2f}{:>14.2f}{:>8.2f}{:>22.2f}".format(
            case["layout"], case["mode"], case["keys"], case["distinct"], case["ms"][baseline]["median"],
            case["ms"]["sok1x"]["median"], case["ratio"], case["ratio of least"]))
    for case in group["cases"]:
        if "bytes" in case:
            print("{:8}{:10}MB that a rank sends in a step: {}".format(case["layout"], case["mode"], ", ".join(
                "{} {:.2f}".format(name, value / 1e6) for name, value in sorted(case["bytes"].items()))))
    for case in group["cases"]:
        for part, spent in case["profile"].items():
            print("\n{} {}: {}, ms a step".format(case["layout"], case["mode"], part))
            for name, value in spent.items():
                if value >= 0.05:
                    print("  {:8.3f}  {}".format(value, name))


def main():
    """Measures, prints, writes."""
    arguments = parse()
    options = {name: value for name, value in vars(arguments).items() if name not in ("ranks", "name")}
    report = dict(machine.describe(), options=options, comparisons=[])
    for ranks in arguments.ranks:
        group = measure(options, ranks)
        for case in group["cases"]:
            expect_agreement(case, group["baseline"])
            summarize(case, group["baseline"])
        report["comparisons"].append(group)
        show(group)
    if arguments.name:
        path = os.path.join(HERE, "results", arguments.name + ".json")
        machine.write(report, path)
        print("\nwritten: " + os.path.relpath(path))


if __name__ == "__main__":
    main()

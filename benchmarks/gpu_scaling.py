"""Weak scaling over the GPUs of one machine: every rank has its own GPU, the same batch size, the same rows.

    python benchmarks/gpu_scaling.py            1, 2 and 4 ranks, and 2 by way of host memory; prints tables and writes
                                                benchmarks/results/gpu_scaling.json
    python benchmarks/gpu_scaling.py --tiny     tries the code, also without a GPU

With N ranks the table has N V rows and a step N B samples; keys are drawn from all N V. A step is timed from
session.run to its return on the slowest rank, after a barrier; efficiency is the time on one rank over that on N.

exchange   ms in exchanges between ranks, in runs of their own: by CUDA events around each, and NCCL's kernels by
           CUPTI's trace, where that is to be had. A rank that comes early waits for the others in it: the rank with
           the least shows what the exchange itself takes.
idle       share of session.run, as it is timed, in which the GPU runs nothing: no kernel of ours, of TensorFlow or NCCL
           (one that waits for other ranks runs), and no copy. What runs is known by CUPTI's trace, in runs of its own:
           these take longer, but what they run takes the hardware as long. Without a trace only what Python launches
           and exchanges is known. Of the rank with the most.
bytes      what a rank gives to others in a step, and what it would give if every key travelled, as often as it
           occurs: 8 bytes to its owner, its row back, its gradient, unless the rank owns it itself
"""
import argparse
import os

import gpu_report
import jobs

MODES = ("forward", "lazyadam", "sgd")
EFFICIENCY = 4, 0.8  # what is to be reached: on so many ranks, so much
# By way of host memory a step takes a hundred times as long.
_STAGED = {"rounds": 2, "recorded": 2, "batches": 3}
_TINY = {"samples": 16, "slots": 4, "dim": 8, "vocabulary": 2048, "batches": 3, "rounds": 2, "recorded": 2,
         "ranks": [1, 2], "staged": 0}


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2, 4], help="leave out what has no GPUs here")
    parser.add_argument("--staged", type=int, default=2, help="ranks that exchange over MPI, for comparison; 0: none")
    parser.add_argument("--layouts", nargs="+", choices=("dense", "sparse"), default=["dense", "sparse"])
    parser.add_argument("--modes", nargs="+", choices=MODES, default=["forward", "lazyadam"])
    parser.add_argument("--exchange", choices=("auto", "all2all", "reduce_scatter"), default="auto",
                        help="of the sparse layout's layer")
    parser.add_argument("--samples", type=int, default=8192, help="B, of each rank")
    parser.add_argument("--slots", type=int, default=26, help="S")
    parser.add_argument("--dim", type=int, default=128, help="D")
    parser.add_argument("--vocabulary", type=int, default=4 * 2 ** 20, help="V, rows of each rank, all in use")
    parser.add_argument("--batches", type=int, default=6, help="different batches, used in turn")
    parser.add_argument("--rounds", type=int, default=8, help="times that each batch is timed")
    parser.add_argument("--recorded", type=int, default=6, help="runs of which kernels and exchanges are timed")
    parser.add_argument("--mpiexec", default="mpiexec", help="what starts ranks (Open MPI's)")
    parser.add_argument("--timeout", type=float, default=120, help="seconds after which a job is ended")
    gpu_report.add_arguments(parser, "gpu_scaling")
    return gpu_report.parse(parser, _TINY)


def run(options, ranks, communicator, devices):
    """Starts gpu_scaling_rank.py on `ranks` ranks and returns what rank 0 wrote."""
    given = dict(vars(options), ranks=ranks, vocabulary=options.vocabulary * ranks, gpus=devices)
    if communicator == "mpi":
        given.update({name: min(given[name], most) for name, most in _STAGED.items()})
    environment = {"SOK1X_COMMUNICATOR": communicator,
                   "SOK1X_ABORT_SECONDS": os.environ.get("SOK1X_ABORT_SECONDS", "60")}
    return jobs.start("gpu_scaling_rank.py", given, jobs.launcher(options.mpiexec, ranks), environment,
                      options.timeout)


def measure(options, report, ranks, communicator, devices):
    """One job's figures."""
    group = run(options, ranks, communicator, devices)
    group.update(ranks=ranks, SOK1X_COMMUNICATOR=communicator, **{
        "GPU of each rank": [devices[rank % len(devices)] for rank in range(ranks)] if devices else None})
    for case in group["cases"]:
        times = gpu_report.summary(case.pop("times"))
        case["ms"] = times
        case["samples/s"] = int(options.samples * ranks / (times["median"] / 1e3))
        for recorded in case["recorded"].values():
            recorded["idle"] = [round(max(0.0, 1.0 - busy / times["median"]), 4) for busy in recorded["busy"]]
    report["groups"].append(group)


def compare(options, report, devices):
    """Efficiencies, against one rank."""
    single = {(case["layout"], case["mode"]): case["ms"]["median"]
              for group in report["groups"] if group["ranks"] == 1 for case in group["cases"]}
    for group in report["groups"]:
        for case in group["cases"]:
            alone = single.get((case["layout"], case["mode"]))
            case["efficiency"] = round(alone / case["ms"]["median"], 3) if alone else None
            if alone and devices and not options.tiny and group["ranks"] == EFFICIENCY[0]:
                case["target"] = {"efficiency": EFFICIENCY[1], "reached": case["efficiency"] >= EFFICIENCY[1]}


def show(report):
    """Prints one table for each job."""
    for group in report["groups"]:
        print("\n{} rank{}: {}, GPUs {}".format(
            group["ranks"], "s" if group["ranks"] > 1 else "",
            group["about"].get("GPU communicator", group["about"].get("communicator")), group["GPU of each rank"]))
        line = "{:7}{:10}{:>9}{:>9}{:>8}{:>14}{:>12}{:>8}{:>16}{:>9}{:>9}{:>12}{:>7}"
        print(line.format("layout", "mode", "ms", "kernels", "idle", "samples/s", "efficiency", "target",
                          "exchange least", "most", "MB sent", "every key's", "times"))
        for case in group["cases"]:
            best = case["recorded"].get("trace") or case["recorded"]["events"]
            spent, sent = best["exchange"], case.get("bytes", {})
            distinct, every = sent.get("sok1x", 0), sent.get("sok1x without distinct keys", 0)
            print(line.format(
                case["layout"], case["mode"], "{:.3f}".format(case["ms"]["median"]),
                "{:.3f}".format(max(best["kernels"])), "{:.0%}".format(max(best["idle"])),
                "{:,}".format(case["samples/s"]),
                "{:.1%}".format(case["efficiency"]) if case["efficiency"] else "-",
                ("ok" if case["target"]["reached"] else "NO") if "target" in case else "-",
                "{:.3f}".format(min(spent)), "{:.3f}".format(max(spent)), "{:.2f}".format(distinct / 1e6),
                "{:.2f}".format(every / 1e6), "{:.2f}".format(every / distinct) if distinct else "-"))


def main():
    """Measures, prints, writes."""
    options = parse()
    report = gpu_report.Report(options)
    report.update(groups=[], weak="B samples and V rows a rank; the table has N V rows")
    devices = jobs.visible_gpus(options.device)
    wanted = [(ranks, os.environ.get("SOK1X_COMMUNICATOR", "auto")) for ranks in options.ranks]
    wanted += [(options.staged, "mpi")] if options.staged else []
    for ranks, communicator in wanted:
        name = "{} ranks, {}".format(ranks, communicator)
        if devices and ranks > len(devices):
            print("left out, for there are {} GPUs: {}".format(len(devices), name))
            continue
        report.phase(name, measure, options, report, ranks, communicator, devices)
    report.phase("compare", compare, options, report, devices)
    report.phase("show", show, report)
    report.end()


if __name__ == "__main__":
    main()

"""A whole DLRM, trained by gradient descent: its dense part alone, with sok1x's table, and with stock TensorFlow's.

    python benchmarks/dlrm.py          on the GPUs, or the CPU where there are none; prints tables and writes
                                       benchmarks/results/dlrm_gpu.json or dlrm_cpu.json
    python benchmarks/dlrm.py --tiny   tries the code, also without a GPU

13 dense features, and 26 fields of one key each whose keys lie behind one another in one table; features and labels are
random. All sides are timed in one process, in alternating rounds.

sok1x         All2AllDenseEmbedding, a hash table that is full; DistributedOptimizer, which also sums the dense
              variables' gradients over the ranks
stock         tf.nn.embedding_lookup on a resource variable, on one rank
dense alone   rows that are there already, whose gradient is computed all the same: the floor of both; on several ranks
              with dense gradients summed over them as in sok1x

ms are from session.run to its return, on the slowest rank; an evaluation ('forward') fetches the B logits. 'above' is
what a side takes more than the dense part alone. B is per rank; V are the keys of all fields, of all ranks together.
After the last step every rank computes the loss of one batch, the same on all of them: where it or a dense variable
differs between ranks, the benchmark fails.
"""
import argparse

import gpu_report
import jobs
import numpy as np

from sok1x.cuda_kernels import gpu as gpus

SIDES = ("dense alone", "sok1x", "stock")
_GPU = {"samples": 8192, "vocabulary": 1 << 22}
_CPU = {"samples": 512, "vocabulary": 1 << 18}
_TINY = {"samples": 16, "slots": 4, "bottom": [16, 8], "top": [16, 1], "vocabulary": 200, "batches": 2, "rounds": 2,
         "steps": 2, "bind": "none", "timeout": 120}


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sides", nargs="+", choices=SIDES, default=list(SIDES))
    parser.add_argument("--modes", nargs="+", choices=("forward", "step"), default=["forward", "step"])
    parser.add_argument("--samples", type=int, help="B, of each rank; {samples} on a GPU, else {other}".format(
        other=_CPU["samples"], **_GPU))
    parser.add_argument("--dense", type=int, default=13, help="dense features")
    parser.add_argument("--slots", type=int, default=26, help="S, fields")
    parser.add_argument("--vocabulary", type=int, help="V, in equal parts for the fields; {vocabulary} on a GPU, else "
                        "{other}".format(other=_CPU["vocabulary"], **_GPU))
    parser.add_argument("--bottom", type=int, nargs="+", default=[512, 256, 128], help="units; the last is D")
    parser.add_argument("--top", type=int, nargs="+", default=[1024, 1024, 512, 256, 1], help="units")
    parser.add_argument("--batches", type=int, default=4, help="different batches, used in turn")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--steps", type=int, default=4, help="steps of each side in a round")
    jobs.add_arguments(parser)
    gpu_report.add_arguments(parser, "dlrm")
    parser.set_defaults(device="gpu" if gpus.count() else "cpu")
    return jobs.complete(gpu_report.parse(parser, _TINY), "dlrm", _GPU, _CPU)


def measure(options, report, ranks, devices):
    """One job's figures; adds its group to the report."""
    sides = [side for side in options.sides if ranks == 1 or side != "stock"]
    if not sides:
        return
    found = jobs.start_ranks("dlrm_rank.py", options, ranks, devices, sides=sides)
    report["gpu"] = report["gpu"] or found["gpu"]
    group = {"ranks": ranks, "about": found["about"], "distinct": found["distinct"], "agreement": found["agreement"],
             "modes": {}}
    for mode, times in found["ms"].items():
        floor = np.median(times["dense alone"]) if "dense alone" in times else None
        group["modes"][mode] = {side: {"ms": gpu_report.summary(values),
                                       "samples/s": int(options.samples * ranks / (np.median(values) / 1e3))}
                                for side, values in times.items()}
        for side, case in group["modes"][mode].items():
            if floor is not None and side != "dense alone":
                case["above ms"] = gpu_report.figure(np.median(times[side]) - floor)
    report["groups"].append(group)


def show(report):
    """Prints one table for each number of ranks."""
    line = "{:9}{:13}{:>10}{:>10}{:>10}{:>14}"
    for group in report["groups"]:
        print("\n{} rank{}".format(group["ranks"], "s" if group["ranks"] > 1 else ""))
        print(line.format("mode", "", "ms", "least", "above", "samples/s"))
        for mode, cases in group["modes"].items():
            for side in SIDES:
                if side in cases:
                    ms = cases[side]["ms"]
                    print(line.format(mode, side, "{:.3f}".format(ms["median"]), "{:.3f}".format(ms["least"]),
                                      cases[side].get("above ms", "-"), "{:,}".format(cases[side]["samples/s"])))
        for side, found in sorted(group["agreement"].items()):
            print("{}: loss of one batch {}; {:,} dense variables differ by {}".format(
                side, ", ".join(map(str, found["loss of one batch"])), found["dense variables"],
                found["dense variables differ by"]))


def main():
    """Measures, prints, writes; each group is written when it is known."""
    options = parse()
    report = gpu_report.Report(options)
    report.update(groups=[], gpu=None)
    devices = jobs.visible_gpus(options.device)
    for ranks in jobs.possible(options.ranks, options.device, devices):
        report.phase("{} ranks".format(ranks), measure, options, report, ranks, devices)
    report.phase("show", show, report)
    report.end()


if __name__ == "__main__":
    main()

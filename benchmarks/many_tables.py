"""Many tables of their own, one key each, trained by gradient descent: what a step costs as they become more.

    python benchmarks/many_tables.py          on the GPUs, or the CPU where there are none; prints tables and writes
                                              benchmarks/results/many_tables_gpu.json or many_tables_cpu.json
    python benchmarks/many_tables.py --tiny   tries the code, also without a GPU

Each table is an All2AllDenseEmbedding (one slot, one key, a hash table that is full) that is looked up by itself, as a
model with T categorical features has them. The loss is half the sum of all rows' squares: little but the embeddings'
own work is timed.

uniform, mixed   the tables' dims: all the same, or cycling over those of --dims
graph            seconds to build what trains: tables, lookups, gradients, optimizer
initialize       seconds of `Init` and the variables' initializers
first step       seconds of the first step, in a process that has taken none; all keys of it are new
forward, step    ms of an evaluation and of a training step, from session.run to its return on the slowest rank

One rank is compared with tf.nn.embedding_lookup on tables without a hash table, in one process, in alternating rounds.
Several ranks, on CPUs, are compared with data-parallel training by Horovod (forward there: each rank looks up in its
own copy), in jobs that alternate: Horovod's thread would take time from ours in one process. On GPUs they have no peer.
B is per rank; V are the keys of a table, of all ranks together.
"""
import argparse
import importlib.util

import gpu_report
import jobs
import numpy as np

from sok1x.cuda_kernels import gpu as gpus

_GPU = {"samples": 8192, "vocabulary": 1 << 18}
_CPU = {"samples": 2048, "vocabulary": 1 << 16}
_TINY = {"tables": [1, 3], "samples": 16, "dim": 8, "dims": [3, 8], "vocabulary": 200, "batches": 2, "rounds": 2,
         "steps": 2, "repeats": 1, "bind": "none", "timeout": 120}


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=int, nargs="+", default=[1, 8, 26, 100, 500])
    parser.add_argument("--layouts", nargs="+", choices=("uniform", "mixed"), default=["uniform", "mixed"])
    parser.add_argument("--modes", nargs="+", choices=("forward", "step"), default=["forward", "step"])
    parser.add_argument("--samples", type=int, help="B, of each rank; {samples} on a GPU, else {other}".format(
        other=_CPU["samples"], **_GPU))
    parser.add_argument("--dim", type=int, default=32, help="D, of uniform tables")
    parser.add_argument("--dims", type=int, nargs="+", default=[4, 8, 16, 32, 64, 128], help="of mixed ones, in turn")
    parser.add_argument("--vocabulary", type=int, help="V; {vocabulary} on a GPU, else {other}".format(
        other=_CPU["vocabulary"], **_GPU))
    parser.add_argument("--batches", type=int, default=4, help="different batches, used in turn")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--steps", type=int, default=4, help="steps of each side in a round")
    parser.add_argument("--repeats", type=int, default=2, help="times that the processes are started anew")
    jobs.add_arguments(parser)
    gpu_report.add_arguments(parser, "many_tables")
    parser.set_defaults(device="gpu" if gpus.count() else "cpu")
    options = gpu_report.parse(parser, _TINY)
    return jobs.complete(options, "many_tables", _GPU, _CPU)


def baseline(ranks, devices):
    """The peer, None where there is none."""
    if ranks == 1:
        return "stock"
    return "horovod" if not devices and importlib.util.find_spec("horovod") else None


def measure(options, report, ranks, layout, tables, devices):
    """One number of tables; adds its case to the report."""
    peer = baseline(ranks, devices)
    dims = options.dims if layout == "mixed" else [options.dim]
    given = {"slots": 1, "dims": [dims[number % len(dims)] for number in range(tables)]}
    started = [["stock", "sok1x"]] if peer == "stock" else [[peer], ["sok1x"]] if peer else [["sok1x"]]
    case = {"ranks": ranks, "layout": layout, "tables": tables, "baseline": peer, "about": {}}
    seconds, ms = {}, {}
    for repeat in range(options.repeats):
        for sides in started if repeat % 2 else reversed(started):
            found = jobs.start_ranks("many_tables_rank.py", options, ranks, devices, sides=sides, **given)
            case["about"].update(found["about"])
            case["distinct"] = found["distinct"]
            report["gpu"] = report["gpu"] or found["gpu"]
            for side, parts in found["seconds"].items():
                for part, value in parts.items():
                    seconds.setdefault(side, {}).setdefault(part, []).append(value)
            for mode, sides_times in found["ms"].items():
                for side, times in sides_times.items():
                    ms.setdefault(side, {}).setdefault(mode, []).extend(times)
    case["sides"] = {side: {
        "seconds": {part: gpu_report.figure(np.median(values)) for part, values in seconds[side].items()},
        "ms": {mode: gpu_report.summary(times) for mode, times in ms[side].items()}} for side in ms}
    for side in case["sides"].values():
        if "step" in side["ms"]:
            side["samples/s"] = int(options.samples * ranks / (side["ms"]["step"]["median"] / 1e3))
    if peer:
        case["ratio"] = {mode: gpu_report.figure(np.median(ms[peer][mode]) / np.median(ms["sok1x"][mode]))
                         for mode in options.modes}
    report["cases"].append(case)


def show(report):
    """Prints one table for each layout and number of ranks."""
    line = "{:>7}  {:9}{:>9}{:>14}{:>14}" + 2 * "{:>12}{:>8}" + "{:>13}"
    before = None
    for case in report["cases"]:
        if (case["ranks"], case["layout"]) != before:
            before = case["ranks"], case["layout"]
            print("\n{} rank{}, {} dims".format(case["ranks"], "s" if case["ranks"] > 1 else "", case["layout"]))
            print(line.format("tables", "", "graph s", "initialize s", "first step s", "forward ms", "ratio", "step ms",
                              "ratio", "samples/s"))
        for name, side in sorted(case["sides"].items()):
            cells = [str(side["seconds"][part]) for part in ("graph", "initialize", "first step")]
            for mode in ("forward", "step"):
                cells += ["{:.3f}".format(side["ms"][mode]["median"]) if mode in side["ms"] else "-",
                          case["ratio"].get(mode, "-") if name == "sok1x" and "ratio" in case else ""]
            print(line.format(case["tables"], name, *cells, "{:,}".format(side.get("samples/s", 0))))


def main():
    """Measures, prints, writes; each case is written when it is known."""
    options = parse()
    report = gpu_report.Report(options)
    report.update(cases=[], gpu=None)
    devices = jobs.visible_gpus(options.device)
    for ranks in jobs.possible(options.ranks, options.device, devices):
        for layout in options.layouts:
            for tables in options.tables:
                report.phase("{} ranks, {}, {} tables".format(ranks, layout, tables), measure, options, report, ranks,
                             layout, tables, devices)
    report.phase("show", show, report)
    report.end()


if __name__ == "__main__":
    main()

"""Many tables of their own, one key each, trained by gradient descent: what a step costs as they become more.

    python benchmarks/many_tables.py          on the GPUs, or the CPU where there are none; prints tables and writes
                                              benchmarks/results/many_tables_gpu.json or many_tables_cpu.json
    python benchmarks/many_tables.py --sparse the same tables by SOK 2.x's names; writes many_tables_sparse_gpu.json or
                                              many_tables_sparse_cpu.json
    python benchmarks/many_tables.py --tiny   tries the code, also without a GPU; with --sparse that of --sparse

Each table is an All2AllDenseEmbedding (one slot, one key, a hash table that is full) that is looked up by itself, as a
model with T categorical features has them. The loss is half the sum of all rows' squares: little but the embeddings'
own work is timed. TensorFlow takes some kernels for each table's part of it; with --loss joined the tables' rows are
concatenated first, as a model does that gives them to dense layers, and it takes some in all.

uniform, mixed   the tables' dims: all the same, or cycling over those of --dims
graph            seconds to build what trains: tables, lookups, gradients, optimizer
initialize       seconds of `Init` and the variables' initializers
first step       seconds of the first step, in a process that has taken none; all keys of it are new
forward, step    ms of an evaluation and of a training step, from session.run to its return on the slowest rank
top              ms of a step's loss and its gradients alone, of rows in variables: TensorFlow's part of a step

One rank is compared with tf.nn.embedding_lookup on tables without a hash table, in one process, in alternating rounds.
Several ranks, on CPUs, are compared with data-parallel training by Horovod (forward there: each rank looks up in its
own copy), in jobs that alternate: Horovod's thread would take time from ours in one process. On GPUs they have no peer.
B is per rank; V are the keys of a table, of all ranks together.

With --sparse one `sok.lookup_sparse` of all tables, trained by `sok.SGD` and by Adam and our LazyAdam in a
`sok.OptimizerWrapper`, is compared with the layers without hash tables, in one process, in alternating rounds; so is
stock TensorFlow on one rank, a tf.nn.embedding_lookup_sparse for each table; Horovod as above.

one, several     ids of a sample: one (layers: All2AllDenseEmbedding), 1 to 9 that are added up (DistributedEmbedding)
times            ms of `lookup_sparse`, divided by the other side's; of the layers' it should be at most 1.1
losses           of one batch, after the same steps of all sides from the same rows: they must agree
"""
import argparse
import importlib.util

import gpu_report
import jobs
import numpy as np

from sok1x.cuda_kernels import gpu as gpus

MOST = 1.1  # times the layers' milliseconds that lookup_sparse should take
_GPU = {"samples": 8192, "vocabulary": 1 << 18}
_CPU = {"samples": 2048, "vocabulary": 1 << 16}
_TINY = {"tables": [1, 3], "samples": 16, "dim": 8, "dims": [3, 8], "vocabulary": 200, "batches": 2, "rounds": 2,
         "steps": 2, "repeats": 1, "bind": "none", "timeout": 120}


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=int, nargs="+", help="1 8 26 100 500; with --sparse 26")
    parser.add_argument("--layouts", nargs="+", choices=("uniform", "mixed"), default=["uniform", "mixed"])
    parser.add_argument("--modes", nargs="+", choices=("forward", "step", "top"), default=["forward", "step"])
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
    parser.add_argument("--sparse", action="store_true", help="measure lookup_sparse")
    parser.add_argument("--ids", nargs="+", choices=("one", "several"), default=["one", "several"],
                        help="with --sparse: ids of a sample")
    parser.add_argument("--ids-form", choices=("sparse", "ragged"), default="sparse",
                        help="with --sparse: tensors that lookup_sparse is given; all others take sparse or dense ones")
    parser.add_argument("--loss", choices=("each", "joined"), default="each", help="see above")
    parser.add_argument("--optimizers", nargs="+", choices=("sgd", "adam", "lazyadam"),
                        default=["sgd", "adam", "lazyadam"], help="with --sparse: a kind of step each")
    jobs.add_arguments(parser)
    gpu_report.add_arguments(parser, "many_tables")
    parser.set_defaults(device="gpu" if gpus.count() else "cpu")
    options = gpu_report.parse(parser, _TINY)
    if options.tables is None:
        options.tables = [26] if options.sparse else [1, 8, 26, 100, 500]
    name = "many_tables_sparse" if options.sparse else "many_tables"
    if options.name == "many_tables":
        options.name = name
    return jobs.complete(options, name, _GPU, _CPU)


def baseline(ranks, devices):
    """The peer, None where there is none."""
    if ranks == 1:
        return "stock"
    return "horovod" if not devices and importlib.util.find_spec("horovod") else None


def collect(options, report, case, started, devices, given):
    """Runs the jobs of a case, each of some sides, in turn; fills in what they found.

    Args:
        started: a list of sides for each job. given: what jobs get besides the options.

    Returns:
        Milliseconds: side -> mode -> list.
    """
    seconds, ms = {}, {}
    for repeat in range(options.repeats):
        for sides in started if repeat % 2 else reversed(started):
            found = jobs.start_ranks("many_tables_rank.py", options, case["ranks"], devices, sides=sides, **given)
            case["about"].update(found["about"])
            case["distinct"] = found["distinct"]
            if "losses" in found:
                case.setdefault("losses", {}).update(found["losses"])
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
    return ms


def measure(options, report, ranks, layout, tables, devices):
    """One number of tables; adds its case to the report."""
    peer = baseline(ranks, devices)
    dims = options.dims if layout == "mixed" else [options.dim]
    given = {"slots": 1, "dims": [dims[number % len(dims)] for number in range(tables)]}
    started = [["stock", "sok1x"]] if peer == "stock" else [[peer], ["sok1x"]] if peer else [["sok1x"]]
    case = {"ranks": ranks, "layout": layout, "tables": tables, "baseline": peer, "about": {}}
    ms = collect(options, report, case, started, devices, given)
    for side in case["sides"].values():
        if "step" in side["ms"]:
            side["samples/s"] = int(options.samples * ranks / (side["ms"]["step"]["median"] / 1e3))
    if peer:
        case["ratio"] = {mode: gpu_report.figure(np.median(ms[peer][mode]) / np.median(ms["sok1x"][mode]))
                         for mode in options.modes}
    report["cases"].append(case)


def expect_agreement(losses):
    """Raises RuntimeError where sides that have taken the same steps are not at the same loss, within float sums."""
    if not np.allclose(list(losses.values()), losses["lookup_sparse"], rtol=1e-4, atol=0):
        raise RuntimeError("the sides do not agree: {}".format(losses))


def measure_sparse(options, report, ranks, ids, tables, devices):
    """`lookup_sparse` of one number of tables, and all that it is compared with; adds its case to the report."""
    modes = [mode for mode in options.modes if mode == "forward"]
    modes += options.optimizers if "step" in options.modes else []
    peer = baseline(ranks, devices)
    ours = ["lookup_sparse", "layers"]
    started = [ours + ["stock"]] if peer == "stock" else [[peer], ours] if peer else [ours]
    case = {"ranks": ranks, "ids": ids, "tables": tables, "baseline": peer, "about": {}}
    ms = collect(options, report, case, started, devices, {"dims": [options.dim] * tables, "ids": ids, "modes": modes})
    expect_agreement(case["losses"])
    case["times"] = {side: {mode: gpu_report.figure(np.median(ms["lookup_sparse"][mode]) / np.median(ms[side][mode]))
                            for mode in modes} for side in ms if side != "lookup_sparse"}
    case["target"] = {"times": MOST, "of": "layers",
                      "reached": {mode: times <= MOST for mode, times in case["times"]["layers"].items()}}
    report["cases"].append(case)


def show_sparse(report):
    """Prints one table for each case; behind the milliseconds how many times the side's `lookup_sparse` takes."""
    for case in report["cases"]:
        print("\n{} rank{}, {} tables, {} of each sample; ms, and times that of lookup_sparse is".format(
            case["ranks"], "s" if case["ranks"] > 1 else "", case["tables"],
            "one id" if case["ids"] == "one" else "1 to 9 ids"))
        modes = list(case["target"]["reached"])
        line = "{:14}" + len(modes) * "{:>12}{:>8}"
        print(line.format("", *[cell for mode in modes for cell in (mode, "times")]))
        for name, side in sorted(case["sides"].items(), key=lambda item: item[0] != "lookup_sparse"):
            times = case["times"].get(name, {})
            print(line.format(name, *[cell for mode in modes for cell in (
                "{:.3f}".format(side["ms"][mode]["median"]), times.get(mode, ""))]))


def show(report):
    """Prints one table for each layout and number of ranks."""
    modes = report["options"]["modes"]
    line = "{:>7}  {:9}{:>9}{:>14}{:>14}" + len(modes) * "{:>12}{:>8}" + "{:>13}"
    before = None
    for case in report["cases"]:
        if (case["ranks"], case["layout"]) != before:
            before = case["ranks"], case["layout"]
            print("\n{} rank{}, {} dims".format(case["ranks"], "s" if case["ranks"] > 1 else "", case["layout"]))
            print(line.format("tables", "", "graph s", "initialize s", "first step s",
                              *[cell for mode in modes for cell in (mode + " ms", "ratio")], "samples/s"))
        for name, side in sorted(case["sides"].items()):
            cells = [str(side["seconds"][part]) for part in ("graph", "initialize", "first step")]
            for mode in modes:
                cells += ["{:.3f}".format(side["ms"][mode]["median"]),
                          case["ratio"].get(mode, "-") if name == "sok1x" and "ratio" in case else ""]
            print(line.format(case["tables"], name, *cells, "{:,}".format(side.get("samples/s", 0))))


def main():
    """Measures, prints, writes; each case is written when it is known."""
    options = parse()
    report = gpu_report.Report(options)
    report.update(cases=[], gpu=None)
    devices = jobs.visible_gpus(options.device)
    for ranks in jobs.possible(options.ranks, options.device, devices):
        for kind in options.ids if options.sparse else options.layouts:
            for tables in options.tables:
                report.phase("{} ranks, {}, {} tables".format(ranks, kind, tables),
                             measure_sparse if options.sparse else measure, options, report, ranks, kind, tables,
                             devices)
    report.phase("show", show_sparse if options.sparse else show, report)
    report.end()


if __name__ == "__main__":
    main()

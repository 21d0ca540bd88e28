"""DCNv2 on Criteo's columns, 26 strings of dims 64 and 128: steps a second by lookups in one group, and by columns.

    python benchmarks/dcnv2.py          on the GPUs, or the CPU where there are none; prints tables and writes
                                        benchmarks/results/dcnv2_gpu.json or dcnv2_cpu.json
    python benchmarks/dcnv2.py --tiny   tries the code, also without a GPU

    python benchmarks/dcnv2.py --batch 512 --repeats 1 --profile --name ''
                                        less than a minute a number of ranks; says what a step of each side consists of

The model, its lookups and its columns are those of legacy_examples/dcnv2.py, trained by LazyAdam as there: all sides
have kernels for it on a GPU. For Adagrad's step of rows TensorFlow 1.15 has none, and puts tables into host memory. A
step takes strings and numbers that are in memory already, hashes the strings, on all sides on the CPU, for there alone
TensorFlow can, and trains all that there is. All sides of one job are timed in one process, in alternating rounds;
Horovod has jobs of its own that alternate with ours, for its thread would take time from ours.

group           tf.nn.group_embedding_lookup_sparse on EmbeddingVariables
columns         tf.feature_column.input_layer of embedding columns made in a group_embedding_column_scope
dense           what is left of 'group' where embeddings cost nothing: they are in memory, their gradient is dropped
stock           stock TensorFlow on one rank: tf.nn.embedding_lookup_sparse for each column, on hash buckets
stock columns   stock TensorFlow on one rank: tf.feature_column over hash buckets, and input_layer
horovod         the whole 'stock' model on every rank, gradients exchanged by hvd.DistributedOptimizer; on CPUs
horovod dense   what is left of that where embeddings cost nothing

--batches-in-total are samples of all ranks together. ms are from session.run to its return, on the slowest rank.
Targets: on GPUs at 512 samples more than 150 steps a second on one, and no fewer on two; columns within 10 % of group;
on CPUs no slower than stock on one rank, twice as fast as Horovod on two.
"""
import argparse
import importlib.util
import itertools

import gpu_report
import jobs
import numpy as np
import step_trace

from sok1x.cuda_kernels import gpu as gpus

SIDES = ("group", "columns", "dense", "stock", "stock columns", "horovod", "horovod dense")
OURS = ("group", "columns")
OF_HOROVOD = ("horovod", "horovod dense")
_GPU = {"vocabulary": 1 << 22}
_CPU = {"vocabulary": 1 << 18}
_TINY = {"batches_in_total": [16], "cross_layers": 1, "low_rank": 2, "hidden": [4], "vocabulary": 260, "batches": 2,
         "rounds": 2, "steps": 2, "repeats": 1, "bind": "none", "timeout": 240}


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sides", nargs="+", choices=SIDES, default=list(SIDES))
    parser.add_argument("--batches-in-total", "--batch", type=int, nargs="+", default=[512, 8192],
                        help="samples of all ranks")
    parser.add_argument("--optimizer", choices=("lazyadam", "adagrad", "sgd"), default="lazyadam")
    parser.add_argument("--profile", action="store_true", help="trace one step of each side by TensorFlow")
    parser.add_argument("--vocabulary", type=int, help="V, strings of all fields in equal parts, and buckets; "
                        "{vocabulary} on a GPU, else {other}".format(other=_CPU["vocabulary"], **_GPU))
    parser.add_argument("--cross-layers", type=int, default=3)
    parser.add_argument("--low-rank", type=int, default=32, help="of the cross layers' matrices")
    parser.add_argument("--hidden", type=int, nargs="*", default=[128, 64], help="units of the layers of ReLUs")
    parser.add_argument("--batches", type=int, default=4, help="different batches, used in turn")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--steps", type=int, default=4, help="steps of each side in a round")
    parser.add_argument("--repeats", type=int, default=2, help="times that the processes are started anew")
    jobs.add_arguments(parser)
    gpu_report.add_arguments(parser, "dcnv2")
    parser.set_defaults(device="gpu" if gpus.count() else "cpu")
    return jobs.complete(gpu_report.parse(parser, _TINY), "dcnv2", _GPU, _CPU)


def started(options, ranks, devices):
    """The sides of each job."""
    ours = [side for side in OURS + ("dense",) if side in options.sides]
    if ranks == 1:
        found = [ours + [side for side in ("stock", "stock columns") if side in options.sides]]
    else:
        horovod = [side for side in OF_HOROVOD if side in options.sides]
        found = [ours] + ([horovod] if not devices and importlib.util.find_spec("horovod") else [])
    return [sides for sides in found if sides]


def measure(options, report, ranks, total, devices):
    """One number of ranks and one batch; adds its case to the report."""
    times, case = {}, {"ranks": ranks, "batch in total": total, "about": {}, "losses": {}, "seconds": {}, "sides": {}}
    for repeat in range(options.repeats):
        chosen = started(options, ranks, devices)
        for sides in chosen if repeat % 2 else reversed(chosen):
            found = jobs.start_ranks("dcnv2_rank.py", options, ranks, devices, sides=sides,
                                     batch_size=total // ranks)
            for what in ("about", "losses", "seconds"):
                case[what].update(found[what])
            if options.profile:
                case.setdefault("traces", {}).update(found["traces"])
            report["gpu"] = report["gpu"] or found["gpu"]
            for side, values in found["ms"].items():
                times.setdefault(side, []).extend(values)
    for side, values in times.items():
        case["sides"][side] = {"ms": gpu_report.summary(values),
                               "steps/s": gpu_report.figure(1e3 / np.median(values), 4)}
    for side, found in case["sides"].items():
        dense = case["sides"].get("horovod dense" if side in OF_HOROVOD else "dense")
        if dense and dense is not found:
            found["ms without the dense part"] = round(found["ms"]["median"] - dense["ms"]["median"], 4)
    report["cases"].append(case)


def targets(options, report):
    """What of the targets is reached, of what was measured."""
    speed = {(case["ranks"], case["batch in total"], side): found["steps/s"]
             for case in report["cases"] for side, found in case["sides"].items()}
    wanted = []
    for ranks, total, side in speed:
        here = speed[ranks, total, side]
        if side == "columns" and (ranks, total, "group") in speed:
            wanted.append(("columns of group, {} ranks, {} samples".format(ranks, total), 0.9,
                           here / speed[ranks, total, "group"]))
        if side not in OURS:
            continue
        if options.device == "gpu" and total == 512:
            if ranks == 1:
                wanted.append(("steps/s of {} on 1 GPU, 512 samples".format(side), 150.0, here))
            elif (1, total, side) in speed:
                wanted.append(("{} GPUs of 1, {}, 512 samples".format(ranks, side), 1.0, here / speed[1, total, side]))
        peers = {"group": "stock", "columns": "stock columns"}
        if options.device == "cpu" and ranks == 1 and (1, total, peers[side]) in speed:
            wanted.append(("{} of {}, {} samples".format(side, peers[side], total), 1.0,
                           here / speed[1, total, peers[side]]))
        if (ranks, total, "horovod") in speed:
            wanted.append(("{} of horovod, {} ranks, {} samples".format(side, ranks, total), 2.0,
                           here / speed[ranks, total, "horovod"]))
    report["targets"] = [{"what": what, "at least": least, "is": gpu_report.figure(found), "reached": bool(
        found >= least)} for what, least, found in sorted(wanted)]


def embeddings_alone(report):
    """How many times as fast ours are as their peers in what steps take without the dense part, if that is to be told:
    if it is more than half of what the dense part's times differ by."""
    report["without the dense part"] = []
    for case in report["cases"]:
        above = {side: found["ms without the dense part"] for side, found in case["sides"].items()
                 if "ms without the dense part" in found}
        if not above:
            continue
        low, high = case["sides"]["dense"]["ms"]["quartiles"]
        for side, peer in itertools.product(OURS, ("stock", "stock columns", "horovod")):
            if min(above.get(side, 0), above.get(peer, 0)) > (high - low) / 2:
                report["without the dense part"].append({
                    "what": "{} of {}, {} ranks, {} samples".format(side, peer, case["ranks"], case["batch in total"]),
                    "is": gpu_report.figure(above[peer] / above[side])})


def show(report):
    """Prints one table for each case, and the targets."""
    for case in report["cases"]:
        print("\n{} rank{}, {} samples in total".format(case["ranks"], "s" if case["ranks"] > 1 else "",
                                                        case["batch in total"]))
        print("{:15}{:>10}{:>10}{:>10}{:>16}  seconds before".format("", "ms", "least", "steps/s", "without dense"))
        for side in SIDES:
            if side in case["sides"]:
                found = case["sides"][side]
                above = found.get("ms without the dense part")
                print("{:15}{:>10.2f}{:>10.2f}{:>10}{:>16}  {}".format(
                    side, found["ms"]["median"], found["ms"]["least"], found["steps/s"],
                    "" if above is None else "{:.2f} ms".format(above),
                    ", ".join("{} {}".format(*item) for item in case["seconds"][side].items())))
        for side in case.get("traces", {}):
            print("\na step of {}, {} ranks, {} samples:".format(side, case["ranks"], case["batch in total"]))
            print("\n".join(step_trace.lines(case["traces"][side])))
    for found in report["without the dense part"]:
        print("without the dense part {what}: {is}".format(**found))
    for target in report["targets"]:
        print("{what}: {is}, at least {at least} wanted: {}".format(
            "reached" if target["reached"] else "MISSED", **target))


def main():
    """Measures, prints, writes; each case is written when it is known."""
    options = parse()
    report = gpu_report.Report(options)
    report.update(cases=[], targets=[], gpu=None)
    devices = jobs.visible_gpus(options.device)
    for ranks in jobs.possible(options.ranks, options.device, devices):
        for total in options.batches_in_total:
            report.phase("{} ranks, {} samples".format(ranks, total), measure, options, report, ranks, total, devices)
    report.phase("targets", targets, options, report)
    report.phase("without the dense part", embeddings_alone, report)
    report.phase("show", show, report)
    report.end()


if __name__ == "__main__":
    main()

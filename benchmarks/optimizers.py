"""Steps of our optimizers and of TensorFlow's on one embedding table, side by side in one process.

    python benchmarks/optimizers.py          measures on the GPU, or the CPU where there is none; writes
                                             benchmarks/results/optimizers_gpu.json or optimizers_cpu.json
    python benchmarks/optimizers.py --tiny   tries the code

On a CPU 2048 x 26 keys, D=32, V=2^20, as benchmarks/embedding.py has them; on a GPU the workloads of gpu_embedding.py:
dense, 8192 x 26 keys, and sparse, 1 to 9 keys a slot, D=128, V=2^22. What is timed: optimizers_sides.py.

whole     ms from session.run to its return, both sides in alternating rounds
fused     ms in the kernels of the optimizer's step itself, in runs of their own: on a GPU by CUPTI's trace, where it is
          to be had, with the sums of gradients where one kernel does both; by CUDA events of each kernel apart, from
          Python
floor     on a GPU: the fewest bytes of that step at the copy bandwidth of the same run
target    on a CPU: whole, of the update, against TensorFlow's; on a GPU: fused, of a trace, against its floor
"""
import argparse
import os
import time

import gpu_device
import gpu_floors
import gpu_recorder
import gpu_report
import gpu_trace
import numpy as np
import optimizers_sides
from workload import make_batches

from sok1x.cuda_kernels import gpu as gpus

MODES = ("update", "step")
_STOCK_SECONDS = 3.0  # for one case of the stock side, which can be a hundred times slower
_GPU = {"samples": 8192, "dim": 128, "vocabulary": 1 << 22, "copy_bytes": 4 << 30}
_TINY = {"samples": 16, "slots": 4, "dim": 8, "vocabulary": 4096, "batches": 3, "rounds": 2, "steps": 2, "recorded": 3,
         "copy_bytes": 1 << 20}
# How many times faster than TensorFlow's an update is to be on a CPU; how many times its floor it may take on a GPU.
CPU_TARGET = 3.0
GPU_TARGETS = {"tf.keras LazyAdamOptimizer": 1.5, "optimizers.Adam": 1.3}


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--optimizers", nargs="+", choices=sorted(optimizers_sides.OPTIMIZERS),
                        default=list(optimizers_sides.OPTIMIZERS))
    parser.add_argument("--layouts", nargs="+", choices=("dense", "sparse"), help="on a GPU both, on a CPU dense; an "
                        "Adam that moves every row has the same work in each, and is timed in the first")
    parser.add_argument("--modes", nargs="+", choices=MODES, default=list(MODES))
    parser.add_argument("--samples", type=int, default=2048, help="B; on a GPU 8192")
    parser.add_argument("--slots", type=int, default=26, help="S")
    parser.add_argument("--dim", type=int, default=32, help="D; on a GPU 128")
    parser.add_argument("--vocabulary", type=int, default=1 << 20, help="V, all of it in the table; on a GPU 2^22")
    parser.add_argument("--batches", type=int, default=4, help="different batches, used in turn")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--steps", type=int, default=6, help="runs of each side in a round; of stock fewer if slow")
    parser.add_argument("--recorded", type=int, default=12, help="runs of which each kernel is timed")
    parser.add_argument("--copy-bytes", type=int, default=64 << 20, help="of the copy that gives the bandwidth")
    on_gpu = gpus.count() > 0
    gpu_report.add_arguments(parser, "optimizers_gpu" if on_gpu else "optimizers_cpu")
    parser.set_defaults(device="gpu" if on_gpu else "cpu", **(_GPU if on_gpu else {}))
    options = gpu_report.parse(parser, _TINY)
    options.layouts = options.layouts or (["dense", "sparse"] if options.device == "gpu" else ["dense"])
    return options


class Benchmark:
    """The device and the batches."""

    def __init__(self, options, report):
        self.options, self.report = options, report
        self.device = gpu_device.get(options.device)
        options.device_name = self.device.tensorflow_name
        self.batches = {layout: make_batches(layout, vars(options), 0) for layout in options.layouts}
        self.sides, self.cases = {}, []

    @property
    def on_gpu(self):
        return self.device.gpu is not None

    def measure(self, name, layout, phase):
        """One optimizer and layout: both sides are made, timed and closed."""
        for side in ("stock", "sok1x"):
            phase("{} {}: make {}".format(name, layout, side), self._make, name, layout, side)
        for mode in self.options.modes:
            case = {"optimizer": name, "layout": layout, "mode": mode, "keys": len(self.batches[layout][0].keys),
                    "distinct": optimizers_sides.distinct_of(self.batches[layout])}
            case["fused bytes"] = int(optimizers_sides.fused_bytes(name, case["distinct"], self.options))
            self.cases.append(case)
            self.report["cases"].append(case)
            phase("{} {} {}: whole".format(name, layout, mode), self._time_whole, case)
            phase("{} {} {}: kernels".format(name, layout, mode), self._record, case, "events", None)
        for side in self.sides.values():
            side.close()
        self.sides = {}

    def trace(self, name, layout, trace, phase):
        """As `measure`, only our kernels by CUPTI. Last, for its hooks stay in the process."""
        phase("{} {}: make again".format(name, layout), self._make, name, layout, "sok1x")
        for case in self.cases:
            if (case["optimizer"], case["layout"]) == (name, layout):
                phase("{} {} {}: trace".format(name, layout, case["mode"]), self._record, case, "trace", trace)
        self.sides.pop("sok1x").close()

    def _make(self, name, layout, side):
        self.sides[side] = optimizers_sides.make(side, name, layout, self.batches[layout], self.options.modes,
                                                 self.options)

    def measure_device(self):
        """The GPU and its copy bandwidth. After the first session: TensorFlow makes the context."""
        if "gpu" not in self.report:
            self.report["gpu"] = self.device.describe() if self.on_gpu else None
            self.report["copy"] = gpu_device.copy_bandwidth(self.device, self.options.copy_bytes)
            self.report["event ms"] = round(self.device.event_overhead(), 5)

    def _time_whole(self, case):
        """A A A B B B, then B B B A A A, ..."""
        options, names = self.options, sorted(self.sides)
        steps = {name: self._warm_up(name, case["mode"]) for name in names}
        times, number = {name: [] for name in names}, 0
        for round_number in range(options.rounds):
            for name in names if round_number % 2 else reversed(names):
                side = self.sides[name]
                for _ in range(steps[name]):
                    side.select(number % options.batches)
                    number += 1
                    self.device.synchronize()
                    began = time.perf_counter()
                    side.run(case["mode"])
                    times[name].append((time.perf_counter() - began) * 1e3)
        case["whole"] = {name: gpu_report.summary(values) for name, values in times.items()}
        case["stock / sok1x"] = round(case["whole"]["stock"]["median"] / case["whole"]["sok1x"]["median"], 2)

    def _warm_up(self, name, mode):
        """Runs each batch; returns how many runs of a round there is time for."""
        options, side = self.options, self.sides[name]
        for number in range(2 * options.batches if name == "sok1x" else 2):
            side.select(number % options.batches)
            began = time.perf_counter()
            side.run(mode)
            last = time.perf_counter() - began
        if name == "sok1x":
            return options.steps
        return int(np.clip(_STOCK_SECONDS / options.rounds / last, 1, options.steps))

    def _record(self, case, clock, trace):
        """Times of our kernels."""
        recorder, side = gpu_recorder.Recorder(self.device, trace), self.sides["sok1x"]
        runs = []
        for number in range(self.options.recorded + 1):
            side.select(number % self.options.batches)
            try:
                run = recorder.record(lambda: side.run(case["mode"]))
            except gpu_trace.TraceMissing as error:
                self.report["no trace"] = str(error)
                return
            if number:  # the first loads what is missing
                runs.append(run)
        layout = case["layout"]
        facts = gpu_floors.Facts(case["keys"], int(case["distinct"]), self.batches[layout][0].bags, self.options.dim, 0)
        case.setdefault("kernels", {})[clock] = {
            "clock": recorder.clock, "all": gpu_report.summary([run.kernels for run in runs]),
            "fused": gpu_report.summary([gpu_recorder.total(
                launch for launch in run.launches if launch.name in optimizers_sides.FUSED) for run in runs]),
            "by kernel": gpu_report.per_kernel(runs, [facts] * len(runs), self.report["copy"]["bytes/s"])}

    def judge(self):
        """Floors and targets, of kernels by the clock that sees all of them."""
        for case in self.cases:
            if not self.on_gpu:
                if not self.options.tiny and case["mode"] == "update" and "stock / sok1x" in case:
                    case["target"] = {"stock / sok1x": CPU_TARGET, "reached": case["stock / sok1x"] >= CPU_TARGET}
                continue
            best = gpu_floors.judged(case.get("kernels", {}))
            if any(row["kernel"] in optimizers_sides.WITH_SUMS for row in best.get("by kernel", ())):
                # What is read of gradients is then a row for each key of an update, of a step for each bag.
                gradients = case["keys"] if case["mode"] == "update" else self.batches[case["layout"]][0].bags
                case["fused bytes"] = int(optimizers_sides.fused_bytes(case["optimizer"], case["distinct"],
                                                                       self.options, gradients))
            case["floor ms"] = round(case["fused bytes"] / self.report["copy"]["bytes/s"] * 1e3, 4)
            # 0: none of the kernels has a name that is known to be the optimizer's.
            if best and best["fused"]["median"] and not self.options.tiny:
                case["fused / floor"] = round(best["fused"]["median"] / case["floor ms"], 2)
                if case["optimizer"] in GPU_TARGETS:
                    wanted = GPU_TARGETS[case["optimizer"]]
                    case["target"] = {"fused / floor": wanted, "reached": case["fused / floor"] <= wanted}

    def show(self):
        """Prints the table."""
        line = "{:28}{:8}{:8}{:>10}{:>10}{:>11}{:>11}{:>8}{:>10}{:>10}{:>7}{:>10}"
        print(line.format("optimizer", "layout", "mode", "keys", "distinct", "stock ms", "sok1x ms", "ratio",
                          "fused ms", "floor ms", "times", "target"))
        for case in self.cases:
            kernels = case.get("kernels", {})
            best = kernels.get("trace") or kernels.get("events") or {}
            target = case.get("target")
            print(line.format(
                case["optimizer"], case["layout"], case["mode"], case["keys"], "{:.0f}".format(case["distinct"]),
                *(_cell(value) for value in (
                    case.get("whole", {}).get("stock", {}).get("median"),
                    case.get("whole", {}).get("sok1x", {}).get("median"), case.get("stock / sok1x"),
                    best.get("fused", {}).get("median"), case.get("floor ms"), case.get("fused / floor"))),
                "-" if target is None else "ok" if target["reached"] else "NO"))
        for case in self.cases:
            for kernels in list(case.get("kernels", {}).values())[-1:]:
                print("\n{} {} {}, by {}".format(case["optimizer"], case["layout"], case["mode"], kernels["clock"]))
                gpu_report.show_kernels(kernels["by kernel"])


def _cell(value):
    return "-" if value is None else "{:.3f}".format(value)


def main():
    """Measures, prints, writes; each phase's figures are written when it ends."""
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "0")
    options = parse()
    report = gpu_report.Report(options)
    report.update({"cases": []})
    import tensorflow.compat.v1 as tf
    tf.logging.set_verbosity(tf.logging.ERROR)
    tf.disable_v2_behavior()
    benchmark = Benchmark(options, report)
    report["options"] = vars(options)
    with tf.Session(config=optimizers_sides.gpu_sides.session_config()):
        report.phase("device", benchmark.measure_device)
    cases = [(name, layout) for name in options.optimizers
             for layout in (options.layouts if "Lazy" in name else options.layouts[:1])]
    for name, layout in cases:
        benchmark.measure(name, layout, report.phase)
    report.phase("judge", benchmark.judge)
    if benchmark.on_gpu and not options.no_trace:
        try:
            trace = gpu_trace.Trace()
            for name, layout in cases:
                benchmark.trace(name, layout, trace, report.phase)
            report.phase("judge again", benchmark.judge)
        except gpu_trace.TraceMissing as error:
            report["no trace"] = str(error)
    report.phase("show", benchmark.show)
    report.end()


if __name__ == "__main__":
    main()

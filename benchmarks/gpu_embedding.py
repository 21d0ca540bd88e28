"""Embedding lookups and training steps on one GPU: sok1x against stock TensorFlow, in one process.

    python benchmarks/gpu_embedding.py          measures; prints tables, writes benchmarks/results/gpu_embedding.json
    python benchmarks/gpu_embedding.py --tiny   tries the code, also without a GPU

Dense: one key a slot, All2AllDenseEmbedding against tf.nn.embedding_lookup. Sparse: 1 to 9 keys a slot, summed,
DistributedEmbedding against tf.nn.embedding_lookup_sparse. Our table has a hash index, and all of its V keys were
inserted by training lookups before. Batches lie in the GPU's memory, and a different one is used for each run.

whole     ms from session.run to its return, which waits for the GPU; both sides in alternating rounds
kernels   ms in our kernels, clears and copies, in other runs: by CUPTI's trace, where it is to be had; by CUDA events
          of those alone that Python launches, which are few: judged is what the trace has
span      ms on the GPU from the first of these to the last; busy: ms in which at least one ran
floor     bytes that the case must move (gpu_floors.py), of the actual batches, at the copy bandwidth of the same run
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
from workload import make_batches

from sok1x.cuda_kernels import group_steps

MODES = ("forward", "forward training", "sgd", "lazyadam")
_STOCK_SECONDS = 3.0  # for one case of the stock side, which can be a hundred times slower
_TINY = {"samples": 16, "slots": 4, "dim": 8, "vocabulary": 4096, "batches": 3, "rounds": 2, "steps": 2, "recorded": 3,
         "copy_bytes": 1 << 20}


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layouts", nargs="+", choices=("dense", "sparse"), default=["dense", "sparse"])
    parser.add_argument("--modes", nargs="+", choices=MODES, default=list(MODES))
    parser.add_argument("--samples", type=int, default=8192, help="B")
    parser.add_argument("--slots", type=int, default=26, help="S")
    parser.add_argument("--dim", type=int, default=128, help="D")
    parser.add_argument("--vocabulary", type=int, default=4 * 2 ** 20, help="V, all of it in the table")
    parser.add_argument("--batches", type=int, default=8, help="different batches, used in turn")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--steps", type=int, default=8, help="runs of each side in a round; of stock fewer if slow")
    parser.add_argument("--recorded", type=int, default=16, help="runs of which each kernel is timed")
    parser.add_argument("--copy-bytes", type=int, default=4 << 30, help="of the copy that gives the bandwidth")
    parser.add_argument("--no-stock", action="store_true", help="only our side")
    gpu_report.add_arguments(parser, "gpu_embedding")
    return gpu_report.parse(parser, _TINY)


class Benchmark:
    """What the phases share."""

    def __init__(self, options, report):
        self.options, self.report = options, report
        self.device = gpu_device.get(options.device)
        options.device_name = self.device.tensorflow_name
        self.sides, self.batches, self.facts, self.cases = {}, {}, {}, {}
        self.bandwidth = None

    def build(self, layout, side):
        """One side's graph, session and table."""
        import gpu_sides
        options = self.options
        if layout not in self.batches:
            self.batches[layout] = make_batches(layout, vars(options), 0)
            self.facts[layout] = [gpu_floors.Facts(len(batch.keys), batch.distinct(), batch.bags, options.dim, 0)
                                  for batch in self.batches[layout]]
        modes = list(options.modes) + ["top"]
        if side == "stock":  # it has one forward
            modes = [mode for mode in options.modes if mode != "forward training"]
        made = {"sok1x": gpu_sides.Sok1x, "stock": gpu_sides.Stock}[side](
            layout, self.batches[layout], modes, options, gpu_sides.session_config())
        self.sides[layout, side] = made
        for mode in modes:
            case = self.cases.setdefault((layout, mode), self._new_case(layout, mode))
            if case not in self.report["cases"]:
                self.report["cases"].append(case)
        # TensorFlow keeps what it has taken, so this is the most so far, of all sides together.
        self.report["memory"].append({"after": "{} {}".format(layout, side), "GPU memory in use, GiB": round(
            self.device.used_bytes() / 2 ** 30, 2)})

    def _new_case(self, layout, mode):
        facts = self.facts[layout]
        nbytes = float(np.mean([gpu_floors.case_bytes(mode, fact) for fact in facts]))
        return {"layout": layout, "mode": mode, "keys": facts[0].keys,
                "distinct": float(np.mean([fact.distinct for fact in facts])), "floor bytes": int(nbytes), "whole": {},
                "kernels": {}}

    def measure_device(self):
        """The GPU, its copy bandwidth, and with it the floors."""
        self.report["gpu"] = self.device.describe()
        self.report["copy"] = gpu_device.copy_bandwidth(self.device, self.options.copy_bytes)
        self.report["event ms"] = round(self.device.event_overhead(), 5)
        self.bandwidth = self.report["copy"]["bytes/s"]
        for case in self.cases.values():
            case["floor ms"] = round(case["floor bytes"] / self.bandwidth * 1e3, 4)

    def time_whole(self, layout, mode):
        """Wall time of session.run: A A A B B B, then B B B A A A, ..."""
        options = self.options
        names = [side for side in ("sok1x", "stock")
                 if (layout, side) in self.sides and mode in self.sides[layout, side].steps]
        steps = {name: self._warm_up(layout, name, mode) for name in names}
        times, left, number = {name: [] for name in names}, {name: [] for name in names}, 0
        for round_number in range(options.rounds):
            for name in names if round_number % 2 else reversed(names):
                side = self.sides[layout, name]
                for _ in range(steps[name]):
                    side.select(number % options.batches)
                    number += 1
                    self.device.synchronize()
                    began = time.perf_counter()
                    side.run(mode)
                    ended = time.perf_counter()
                    self.device.synchronize()
                    times[name].append((ended - began) * 1e3)
                    left[name].append((time.perf_counter() - ended) * 1e3)
        whole = self.cases[layout, mode]["whole"]
        whole.update({name: gpu_report.summary(values) for name, values in times.items()})
        # Next to nothing, or session.run would not have waited for the GPU.
        whole["ms to wait for the GPU afterwards"] = {name: round(float(np.median(values)), 4)
                                                      for name, values in left.items()}
        if len(names) == 2:
            whole["stock / sok1x"] = round(whole["stock"]["median"] / whole["sok1x"]["median"], 2)

    def _warm_up(self, layout, name, mode):
        """Runs each batch; returns how many runs of a round there is time for."""
        options, side, slowest = self.options, self.sides[layout, name], 0.0
        for number in range(2 * options.batches if name == "sok1x" else 3):
            side.select(number % options.batches)
            began = time.perf_counter()
            side.run(mode)
            slowest = time.perf_counter() - began
        if name == "sok1x":
            return options.steps
        return int(np.clip(_STOCK_SECONDS / options.rounds / slowest, 1, options.steps))

    def record(self, layout, mode, side, clock, trace, count):
        """Times of single kernels, in runs of their own."""
        device, options, running = self.device, self.options, self.sides[layout, side]
        recorder = gpu_recorder.Recorder(device, trace)
        runs, facts = [], []
        for number in range(count + 1):
            running.select(number % options.batches)
            run = recorder.record(lambda: running.run(mode))
            if number:  # the first loads what is missing
                runs.append(run)
                facts.append(self.facts[layout][number % options.batches])
        found = {"clock": recorder.clock, "span": gpu_report.summary([run.span for run in runs]),
                 "busy": gpu_report.summary([run.busy for run in runs])}
        if side == "sok1x" and mode != "top":
            found["kernels"] = gpu_report.summary([run.kernels for run in runs])
            found["launches"] = int(np.median([len(run.launches) for run in runs]))
            found["by kernel"] = gpu_report.per_kernel(runs, facts, self.bandwidth)
        if trace is not None:
            found["TensorFlow's kernels"] = gpu_report.summary([gpu_recorder.total(run.others) for run in runs])
        self.cases[layout, mode]["kernels"].setdefault(side, {})[clock] = found

    def record_all(self, clock, trace=None, sides=("sok1x",)):
        """`record` for all cases."""
        for layout, side in self.sides:
            if side in sides:
                for mode in self.sides[layout, side].steps:
                    if side == "stock":
                        self.record(layout, mode, side, clock, trace, 2)
                    elif trace is not None or mode != "top":
                        self.record(layout, mode, side, clock, trace, self.options.recorded)

    def trace_all(self):
        """As `record_all`, by CUPTI. The last phase: its hooks stay in the process."""
        try:
            trace = gpu_trace.Trace()
            self.report["trace by"] = trace.cupti
            self.record_all("trace", trace, ("sok1x", "stock"))
            self.trace_deterministic(trace)
        except gpu_trace.TraceMissing as error:
            self.report["no trace"] = str(error)
            print("no trace: {}".format(error))

    def deterministic(self):
        """What SOK1X_DETERMINISTIC=1 costs: the same runs, with the GPU's sums in a fixed order."""
        gpu, options = self.device.gpu, self.options
        if gpu is None or gpu.deterministic:
            return
        try:
            for (layout, mode), case in self._trained():
                side, found = self.sides[layout, "sok1x"], {True: [], False: []}
                for round_number in range(options.rounds):
                    for ordered in (True, False) if round_number % 2 else (False, True):
                        _set_deterministic(gpu, ordered)
                        for step in range(options.steps):
                            side.select(step % options.batches)
                            began = time.perf_counter()
                            side.run(mode)
                            if step:  # the first has to get its memory
                                found[ordered].append((time.perf_counter() - began) * 1e3)
                case["deterministic"] = {"whole": gpu_report.summary(found[True]),
                                         "whole without": gpu_report.summary(found[False])}
                _set_deterministic(gpu, True)
                self.record(layout, mode, "sok1x", "deterministic", None, min(8, options.recorded))
        finally:
            _set_deterministic(gpu, False)

    def trace_deterministic(self, trace):
        """The kernels of `deterministic`'s runs. Where they are the others', its figures say nothing: it raises."""
        for (layout, mode), case in self._trained():
            if "deterministic" not in case:
                continue
            try:
                _set_deterministic(self.device.gpu, True)
                self.record(layout, mode, "sok1x", "deterministic trace", trace, min(8, self.options.recorded))
            finally:
                _set_deterministic(self.device.gpu, False)
            ran = [{row["kernel"] for row in case["kernels"]["sok1x"][clock]["by kernel"]}
                   for clock in ("trace", "deterministic trace")]
            if ran[0] == ran[1]:
                raise RuntimeError("{} {}: a deterministic step has the kernels of any other".format(layout, mode))

    def _trained(self):
        return [(of, case) for of, case in self.cases.items() if of[1] in ("sgd", "lazyadam")]

    def judge(self):
        """Ratios to floors, and the targets, of what was measured: kernels by the clock that sees all of them."""
        for (layout, mode), case in self.cases.items():
            recorded = gpu_floors.judged(case["kernels"].get("sok1x", {}))
            figures = {"kernels": recorded.get("kernels"), "whole": case["whole"].get("sok1x")}
            for what, figure in figures.items():
                if figure and case.get("floor ms"):
                    case[what + " / floor"] = round(figure["median"] / case["floor ms"], 2)
            measured = self.device.gpu is not None and not self.options.tiny
            wanted = gpu_floors.TARGETS.get((layout, mode), {}) if measured else {}
            case["targets"] = {what: {"ms": ms, "reached": figures[what]["median"] <= ms}
                               for what, ms in wanted.items() if figures[what]}

    def show(self):
        """Prints the tables."""
        print("\ncopy bandwidth {:.3f} TB/s; an event-timed launch shows up to {:.1f} us too much\n".format(
            (self.bandwidth or 0) / 1e12, self.report.get("event ms", 0) * 1e3))
        line = "{:7}{:17}{:>9}{:>9}{:>9}{:>8}{:>10}{:>8}{:>10}{:>9}{:>9}"
        print(line.format("layout", "mode", "floor ms", "events", "trace", "target", "sok1x run", "target", "stock run",
                          "span", "determ."))
        for case in self.report["cases"]:
            recorded = case["kernels"].get("sok1x", {})
            cells = [recorded.get(clock, {}).get("kernels", {}).get("median") for clock in ("events", "trace")]
            span = (recorded.get("trace") or recorded.get("events") or {}).get("span", {}).get("median")
            wanted = case.get("targets", {})
            verdicts = ["{}{}".format(wanted[what]["ms"], " ok" if wanted[what]["reached"] else " NO")
                        if what in wanted else "" for what in ("kernels", "whole")]
            whole = [case["whole"].get(side, {}).get("median") for side in ("sok1x", "stock")]
            print(line.format(case["layout"], case["mode"], *(_cell(value) for value in (
                case.get("floor ms"), cells[0], cells[1], verdicts[0], whole[0], verdicts[1], whole[1], span,
                case.get("deterministic", {}).get("whole", {}).get("median")))))
        for case in self.report["cases"]:
            recorded = case["kernels"].get("sok1x", {})
            best = recorded.get("trace") or recorded.get("events") or {}
            if best.get("by kernel"):
                print("\n{} {}, by {}".format(case["layout"], case["mode"], best["clock"]))
                gpu_report.show_kernels(best["by kernel"])


def _set_deterministic(gpu, ordered):
    """Has both of a GPU's users know: Python, and C++, which is told where it asks for the GPU, once."""
    gpu.deterministic = ordered
    with gpu.active():
        group_steps.device(gpu)


def _cell(value):
    return "-" if value is None else value if isinstance(value, str) else "{:.3f}".format(value)


def main():
    """Measures, prints, writes; each phase's figures are written when it ends."""
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "0")
    options = parse()
    report = gpu_report.Report(options)
    report.update({"cases": [], "memory": [], "filled": "all V keys, by lookups that train", "whole by": "session.run"})
    import tensorflow.compat.v1 as tf
    tf.logging.set_verbosity(tf.logging.ERROR)
    tf.disable_v2_behavior()
    benchmark = Benchmark(options, report)
    report["options"] = vars(options)
    for side in ("sok1x",) if options.no_stock else ("sok1x", "stock"):
        for layout in options.layouts:
            report.phase("build {} {}".format(layout, side), benchmark.build, layout, side)
    report.phase("device", benchmark.measure_device)
    for layout, mode in list(benchmark.cases):
        report.phase("whole {} {}".format(layout, mode), benchmark.time_whole, layout, mode)
    report.phase("events", benchmark.record_all, "events")
    report.phase("deterministic", benchmark.deterministic)
    report.phase("judge", benchmark.judge)
    if benchmark.device.gpu is not None and not options.no_trace:
        report.phase("trace", benchmark.trace_all)
        report.phase("judge again", benchmark.judge)
    report.phase("show", benchmark.show)
    report.end()


if __name__ == "__main__":
    main()

"""One rank of gpu_scaling.py: [mpiexec -np N] python benchmarks/gpu_scaling_rank.py OPTIONS.json RESULT.json"""
import sys
import time

import gpu_device
import gpu_recorder
import gpu_trace
import jobs
import numpy as np
import tensorflow.compat.v1 as tf
from gpu_sides import Sok1x, session_config
from measure import Ranks, answer, asked
from workload import make_batches

from sok1x import launch


class Benchmark:
    """What is measured on this rank, together with the others: one layout's table and its cases."""

    def __init__(self, layout, options, ranks, device):
        self.layout, self.options, self.ranks, self.device = layout, options, ranks, device
        self.batches = make_batches(layout, vars(options), ranks.rank)
        self.side = Sok1x(layout, self.batches, options.modes, options, session_config(), ranks.size)
        world = launch.current()
        self.communicator = world.gpu_communicator or world.communicator
        self.cases = []

    def measure(self):
        """Everything but the trace."""
        ranks = self.ranks
        for mode in self.options.modes:
            case = {"layout": self.layout, "mode": mode, "keys": len(self.batches[0].keys),
                    "distinct": float(np.mean(ranks.gather(np.mean([batch.distinct() for batch in self.batches]))))}
            case["times"] = self._time(mode)
            case["recorded"] = {"events": self._record(mode, None)}
            if ranks.size > 1:
                case["bytes"] = self._exchanged(mode)
            self.cases.append(case)

    def measure_trace(self, trace):
        """Kernels and exchanges by CUPTI, whose hooks stay in the process."""
        for case in self.cases:
            recorded = self._record(case["mode"], trace)
            if recorded:
                case["recorded"]["trace"] = recorded

    def _time(self, mode):
        """ms of each step on the slowest rank."""
        times = []
        for turn in range(self.options.rounds + 2):
            for number in range(len(self.batches)):
                self.side.select(number)
                self.device.synchronize()
                self.ranks.barrier()
                began = time.perf_counter()
                self.side.run(mode)
                if turn >= 2:
                    times.append((time.perf_counter() - began) * 1e3)
        return np.max(self.ranks.gather(times), axis=0).tolist()

    def _record(self, mode, trace):
        """Medians of each rank: ms in kernels, in exchanges, how many exchanges; ms of session.run, and those in which
        the GPU runs anything. None where a trace fails."""
        recorder = gpu_recorder.Recorder(self.device, trace, self.communicator)
        runs, failed = [], ""
        for number in range(self.options.recorded + 1):
            self.side.select(number % len(self.batches))
            self.ranks.barrier()
            try:
                run = recorder.record(lambda: self.side.run(mode))
                runs += [run] if number else []
            except gpu_trace.TraceMissing as error:
                failed = str(error)  # the others go on, and this rank with them
        failures = self.ranks.gather(failed)
        if any(failures):
            print("no trace: {}".format(failures), file=sys.stderr)
            return None
        found = {"kernels": [run.kernels for run in runs], "span": [run.span for run in runs],
                 "exchange": [gpu_recorder.total(run.exchanges) for run in runs],
                 "exchanges": [len(run.exchanges) for run in runs],
                 "session.run": [run.wall for run in runs], "busy": [run.busy for run in runs]}
        gathered = self.ranks.gather({name: float(np.median(values)) for name, values in found.items()})
        return dict({name: [round(each[name], 4) for each in gathered] for name in found}, clock=recorder.clock)

    def _exchanged(self, mode):
        """Bytes that a rank gives to others in a step, averaged over batches and ranks."""
        before = self.communicator.bytes_sent
        for number in range(len(self.batches)):
            self.side.select(number)
            self.ranks.barrier()
            self.side.run(mode)
        sent = (self.communicator.bytes_sent - before) / float(len(self.batches))
        row, ranks = 4 * self.options.dim, self.ranks
        away = np.mean([np.sum(batch.keys % ranks.size != ranks.rank) for batch in self.batches])
        found = {"sok1x": sent, "sok1x without distinct keys": away * (8 + row + (0 if mode == "forward" else row))}
        gathered = ranks.gather(found)
        return {name: int(np.mean([each[name] for each in gathered])) for name in found}


def open_trace(ranks, device):
    """A trace, where every rank has one; else None."""
    trace, problem = None, ""
    try:
        trace = gpu_trace.Trace()
        with trace.recorded(device.synchronize):
            pass
    except gpu_trace.TraceMissing as error:
        problem = str(error)
    problems = ranks.gather(problem)
    if any(problems) and ranks.rank == 0:
        print("no trace: {}".format(problems), file=sys.stderr)
    return None if any(problems) else trace


def main():
    """Measures; rank 0 writes."""
    options = asked()
    jobs.take_gpu(options.gpus)
    tf.logging.set_verbosity(tf.logging.ERROR)
    ranks = Ranks(False, options.ranks == 1)
    device = gpu_device.get("gpu" if options.gpus else "cpu")
    options.device_name = device.tensorflow_name
    benchmarks = [Benchmark(layout, options, ranks, device) for layout in options.layouts]
    for benchmark in benchmarks:
        benchmark.measure()
    trace = open_trace(ranks, device) if options.gpus and not options.no_trace else None
    for benchmark in benchmarks if trace else []:
        benchmark.measure_trace(trace)
    cases = [case for benchmark in benchmarks for case in benchmark.cases]
    about = ranks.gather(device.describe())
    answer(ranks, {"cases": cases, "about": launch.current().description, "gpu": about[0],
                   "host threads": launch.current().host_threads})


if __name__ == "__main__":
    tf.disable_v2_behavior()
    main()

"""Tables that grow and forget: what that costs beside a table of fixed size.

    python benchmarks/dynamic.py          measures on the GPU, or the CPU where there is none; writes
                                          benchmarks/results/dynamic_gpu.json or dynamic_cpu.json
    python benchmarks/dynamic.py --tiny   tries the code

A step is lookup, half the squared distance from a target as loss, gradient, and LazyAdam on it: dense batches of
power-law keys (workload.py). The sides run in one process, in alternating rounds; ms from session.run to its return.

grown      a table that has grown to V rows, and one that has had them from the start; both have all V keys
eviction   evicting: a full table of V rows that forgets, where a share of the positions (10 %) asks for keys that have
           never been there, so that rows leave; inserting: the same batches in a table of 2 V rows, which has room
           for them, until that is used up; resident: the first without new keys
growth     a lookup of one new key in a full table of half --growth-rows with LazyAdam's slots, which doubles:
           against moving the bytes that this moves, old rows read and written and new ones written, at the copy
           bandwidth of the same run; on a GPU the peak of the allocator against the state after it. The lookup has
           run before, without a growth ("ms without" is such a run): a first run is TensorFlow's work
hybrid     a table of --hybrid-vocabulary rows, all of them in host memory, with a cache of --cache of them, against one
           of fixed size in the device's memory. Every batch has other keys: --hybrid-warm steps, then --hybrid-steps
           that are measured, then as many lookups. Besides: what copies over the bus reach in the same run, the rows
           that came and went in these steps, and the hit rate of an exact LRU that sees the same keys
find       keys that are in that cache found in its index, against those of a fixed table of all rows: the kernel alone
half       half of a table's rows in its cache: an evaluation of --find-keys uniform keys, D = 64, with their rows

Of a growth, and of steps in which rows leave, "parts" says where the time goes (dynamic_parts.py). These are runs of
their own, for on a GPU events are recorded around every kernel then.
"""
import argparse
import time

import dynamic_parts
import dynamic_sides
import gpu_device
import gpu_report
import hybrid_cases
import numpy as np
import tensorflow.compat.v1 as tf

from sok1x.cuda_kernels import gpu as gpus

# The allocator remembers the most that has been in use: so growth is first.
CASES = ("growth", "grown", "eviction") + tuple(hybrid_cases.CASES)
_GPU = {"samples": 8192, "dim": 128, "vocabulary": 1 << 22, "copy_bytes": 4 << 30, "eviction_steps": 10000,
        "growth_rows": 1 << 23, "hybrid_vocabulary": 1 << 24, "find_keys": 1 << 20, "hybrid_warm": 100,
        "hybrid_steps": 40}
_TINY = {"samples": 16, "slots": 4, "dim": 8, "vocabulary": 4096, "batches": 3, "rounds": 2, "steps": 2, "growths": 2,
         "growth_rows": 4096, "eviction_steps": 60, "copy_bytes": 1 << 20, "hybrid_vocabulary": 4096, "find_keys": 512,
         "hybrid_warm": 4, "hybrid_steps": 4, "part_steps": 4}
# At most so many times as long.
TARGETS = {"gpu": {"grown": 1.03, "eviction": 1.15, "growth": 1.3}, "cpu": {"grown": 1.1, "eviction": 1.1}}
PEAK = 1.5  # of the allocator, against the state after a growth


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--samples", type=int, default=2048, help="B; on a GPU 8192")
    parser.add_argument("--slots", type=int, default=26, help="S")
    parser.add_argument("--dim", type=int, default=32, help="D; on a GPU 128")
    parser.add_argument("--vocabulary", type=int, default=1 << 20, help="V; on a GPU 2^22")
    parser.add_argument("--batches", type=int, default=8, help="different batches, used in turn")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--steps", type=int, default=6, help="runs of each side in a round")
    parser.add_argument("--new", type=float, default=0.1, help="share of positions that ask for new keys")
    parser.add_argument("--strategy", choices=("lru", "lfu"), default="lru")
    parser.add_argument("--eviction-steps", type=int, default=400, help="steps of each side while rows leave")
    parser.add_argument("--part-steps", type=int, default=48, help="steps of which the parts are timed")
    parser.add_argument("--growths", type=int, default=5)
    parser.add_argument("--growth-rows", type=int, default=1 << 20, help="V after a growth; on a GPU 2^23")
    parser.add_argument("--hybrid-vocabulary", type=int, default=1 << 20, help="rows of 'hybrid'; on a GPU 2^24")
    parser.add_argument("--cache", type=float, default=0.1, help="share of them that the cache has")
    parser.add_argument("--hybrid-warm", type=int, default=12, help="steps before; on a GPU 100")
    parser.add_argument("--hybrid-steps", type=int, default=12, help="steps that are measured; on a GPU 40")
    parser.add_argument("--find-keys", type=int, default=1 << 16, help="of 'find' and 'half'; on a GPU 2^20")
    on_gpu = gpus.count() > 0
    gpu_report.add_arguments(parser, "dynamic_gpu" if on_gpu else "dynamic_cpu")
    parser.add_argument("--copy-bytes", type=int, default=64 << 20, help="of the copy that gives the bandwidth")
    parser.set_defaults(device="gpu" if on_gpu else "cpu", **(_GPU if on_gpu else {}))
    return gpu_report.parse(parser, _TINY)


class Benchmark:
    """The device, and the figures."""

    def __init__(self, options, report):
        self.options, self.report = options, report
        self.device = gpu_device.get(options.device)
        options.device_name = self.device.tensorflow_name

    def measure_device(self):
        """The GPU and its copy bandwidth. After the first session: TensorFlow makes the context."""
        on_gpu = self.device.gpu is not None
        self.report["gpu"] = self.device.describe() if on_gpu else None
        self.report["copy"] = gpu_device.copy_bandwidth(self.device, self.options.copy_bytes)

    def grown(self):
        """See the module's text."""
        options = self.options
        sides = {"fixed": dynamic_sides.Side(options, options.vocabulary),
                 "grown": dynamic_sides.Side(options, None, init_capacity=options.vocabulary // 4)}
        for side in sides.values():
            side.fill(np.arange(options.vocabulary))
        times = self._alternate(sides, options.rounds, options.steps)
        capacity = {name: side.capacity() for name, side in sides.items()}
        assert set(capacity.values()) == {options.vocabulary}, capacity
        self._end("grown", sides, times, ("grown", "fixed"), "median")

    def eviction(self):
        """See the module's text."""
        options = self.options
        made = dict(max_capacity=options.vocabulary, init_capacity=options.vocabulary, evict_strategy=options.strategy)
        sides = {"resident": dynamic_sides.Side(options, None, **made),
                 "inserting": dynamic_sides.Side(options, 2 * options.vocabulary, new=options.new),
                 "evicting": dynamic_sides.Side(options, None, new=options.new, **made)}
        for side in sides.values():
            side.fill(np.arange(options.vocabulary))
        before = {name: side.evicted() for name, side in sides.items()}
        rounds = max(1, options.eviction_steps // options.steps)
        # Until its room is used up.
        room = int(0.9 * options.vocabulary / (options.new * options.samples * options.slots)) - 2 * options.batches
        times = self._alternate(sides, rounds, options.steps, {"inserting": max(options.steps, room)})
        evicted = {name: (side.evicted() - before[name]) / len(times[name]) for name, side in sides.items()}
        assert evicted["resident"] == 0 < evicted["evicting"], evicted
        parts = dynamic_parts.Parts(self.device)
        with parts.timed():
            for _ in range(options.part_steps):
                sides["evicting"].run()
        # A mean: most steps evict nothing, and some many rows.
        case = self._end("eviction", sides, times, ("evicting", "inserting"), "mean")
        case["parts"] = parts.report(options.part_steps)
        case["evicted in a step"] = round(evicted["evicting"], 1)
        of = case["ms"]
        case["times resident"] = gpu_report.figure(of["evicting"]["mean"] / of["resident"]["mean"])

    def growth(self):
        """See the module's text."""
        options, times, without, peaks, moved = self.options, [], [], [], 0
        half = options.growth_rows // 2
        parts = dynamic_parts.Parts(self.device)
        for number in range(options.growths + 1):
            side = dynamic_sides.Side(options, None, init_capacity=half, max_capacity=options.growth_rows)
            side.fill(np.arange(half))
            before = side.bytes()
            for _ in range(options.batches):
                side.look_up_one(self.device, 0)
            without.append(side.look_up_one(self.device, 0))
            if number < options.growths:
                times.append(side.look_up_one(self.device, -1))
            else:
                with parts.timed():
                    side.look_up_one(self.device, -1)
            after = side.bytes()
            assert side.capacity() == options.growth_rows, side.capacity()
            moved, state = 2 * before + (after - before), after
            if self.device.gpu is not None and options.cases[0] == "growth":
                peaks.append(side.peak() / after)
            side.close()
        floor = moved / self.report["copy"]["bytes/s"] * 1e3
        case = {"case": "growth", "ms": gpu_report.summary(times), "bytes moved": moved, "bytes after": state,
                "copy ms": gpu_report.figure(floor), "times": gpu_report.figure(np.median(times) / floor),
                "ms without": gpu_report.summary(without), "parts": parts.report(1)}
        if peaks:
            case["peak / bytes after"] = gpu_report.figure(max(peaks))
            case["peak target"] = {"at most": PEAK, "reached": max(peaks) <= PEAK}
        self._add(case)

    def _alternate(self, sides, rounds, steps, most=()):
        """A A A B B B, then B B B A A A, ...; most: {side: the steps after which it stops}."""
        times = {name: [] for name in sides}
        for side in sides.values():
            for _ in range(self.options.batches):
                side.run()
        for number in range(rounds):
            for name in sorted(sides) if number % 2 else sorted(sides, reverse=True):
                for _ in range(steps if len(times[name]) < dict(most).get(name, np.inf) else 0):
                    self.device.synchronize()
                    began = time.perf_counter()
                    sides[name].run()
                    times[name].append((time.perf_counter() - began) * 1e3)
        return times

    def _end(self, case, sides, times, compared, figure):
        """Notes the times of sides, how many times as long one of two takes as the other, and closes all."""
        one, other = compared
        of = {name: dict(gpu_report.summary(values), mean=round(float(np.mean(values)), 4),
                         worst=round(float(max(values)), 4)) for name, values in times.items()}
        for side in sides.values():
            side.close()
        return self._add({"case": case, "ms": of, "compared": "{} / {}, {}".format(one, other, figure),
                          "times": gpu_report.figure(of[one][figure] / of[other][figure])})

    def _add(self, case):
        targets = TARGETS["gpu" if self.device.gpu is not None else "cpu"]
        if case["case"] in targets and not self.options.tiny:
            at_most = targets[case["case"]]
            case["target"] = {"at most": at_most, "reached": case["times"] <= at_most}
        self.report["cases"].append(case)
        return case

    def show(self):
        """Prints the table."""
        for case in self.report["cases"]:
            target = case.get("target")
            print("{:10} {:>8} times   {}".format(
                case["case"], case["times"], "" if target is None else "target {}: {}".format(
                    target["at most"], "ok" if target["reached"] else "NO")))
            for name, value in sorted(case.items()):
                if name not in ("case", "times", "target"):
                    print("           {}: {}".format(name, value))


def main():
    """Measures, prints, writes; each case's figures are written when it ends."""
    options = parse()
    report = gpu_report.Report(options)
    report.update({"cases": []})
    tf.logging.set_verbosity(tf.logging.ERROR)
    benchmark = Benchmark(options, report)
    report["options"] = vars(options)
    with tf.Session(config=dynamic_sides.session_config()):
        report.phase("device", benchmark.measure_device)
    for case in options.cases:
        if case in hybrid_cases.CASES:
            report.phase(case, hybrid_cases.CASES[case], benchmark)
        else:
            report.phase(case, getattr(benchmark, case))
    report.phase("show", benchmark.show)
    report.end()


if __name__ == "__main__":
    tf.disable_v2_behavior()
    main()

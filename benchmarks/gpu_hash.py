"""Operations of the hash index on one GPU: billions of keys a second. Kernels only, no TensorFlow.

    python benchmarks/gpu_hash.py               measures; prints a table, writes benchmarks/results/gpu_hash.json
    python benchmarks/gpu_hash.py --tiny        tries the code, also without a GPU

The index has 2^26 slots. It is filled with distinct random 64-bit keys to each load factor in turn; then several sets
of 2^20 keys are used in turn, keys in random order:

find             rows of keys that all are in the index
find or insert   as the library does it (graph_ops/stores/hashed_store.py): find, which counts the missing keys; where
                 there are any, insert, which gives them rows in their order. Mixes: none of the keys new, 5 %,
                 50 %. Before each
                 call the index is put back as it was, so each begins at the load factor that is stated.

kernels          keys over the sum of the kernels' times
stream           find only: several calls enqueued behind each other, over the time from the first to the last
call             keys over the time from the wrappers' call to their return, with the wait for the counts
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

from sok1x.cuda_kernels import hash_index, lookup

_TINY = {"capacity": 1 << 12, "keys": 256, "sets": 3, "repeats": 2, "copy_bytes": 1 << 20}


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--capacity", type=int, default=1 << 26, help="slots of the index, a power of two")
    parser.add_argument("--keys", type=int, default=1 << 20, help="keys of a call")
    parser.add_argument("--loads", type=float, nargs="+", default=[0.5, 0.75, 0.95])
    parser.add_argument("--new", type=float, nargs="+", default=[0.0, 0.05, 0.5], help="parts of the keys that are new")
    parser.add_argument("--sets", type=int, default=6, help="different sets of keys")
    parser.add_argument("--repeats", type=int, default=3, help="times that each set is used")
    parser.add_argument("--copy-bytes", type=int, default=4 << 30, help="of the copy that gives the bandwidth")
    gpu_report.add_arguments(parser, "gpu_hash")
    return gpu_report.parse(parser, _TINY)


def random_keys(numbers, seed):
    """Random 64-bit keys, int64: a one-to-one function of uint64 `numbers`, which it overwrites."""
    numbers += np.uint64(seed)
    for factor, shift in ((0x9e3779b97f4a7c15, 32), (0xd6e8feb86659fd93, 29)):
        numbers *= np.uint64(factor)
        numbers ^= numbers >> np.uint64(shift)
    return numbers.view(np.int64)


class Benchmark:
    """An index on the device, filled with keys number 0 to `used` - 1."""

    def __init__(self, options, report):
        self.options, self.report = options, report
        self.device = device = gpu_device.get(options.device)
        report["gpu"] = device.describe()
        report["copy"] = gpu_device.copy_bandwidth(device, options.copy_bytes)
        report["event ms"] = round(device.event_overhead(), 5)
        self.index, self.kept = (gpu_device.array(device, "int64", options.capacity, 2) for _ in range(2))
        self.chunk = max(options.keys, options.capacity // 16)
        self.keys, self.rows = (gpu_device.array(device, dtype, self.chunk) for dtype in ("int64", "int32"))
        self.random = np.random.RandomState(options.seed)
        self.used = 0
        self.trace = None
        with device.use():
            hash_index.clear(self.index)
        if device.gpu is not None and not options.no_trace:
            try:
                self.trace = gpu_trace.Trace()
            except gpu_trace.TraceMissing as error:
                report["no trace"] = str(error)

    def key(self, numbers):
        """The keys of these numbers."""
        return random_keys(np.array(numbers, np.uint64), self.options.seed)

    def fill(self, load):
        """Inserts keys up to a load factor, in big calls of find and insert; keeps a copy of the index."""
        capacity = self.options.capacity
        target = int(load * capacity)
        while self.used < target:
            count = min(self.chunk, target - self.used)
            self.device.upload(self.key(np.arange(self.used, self.used + count)), self.keys.pointer)
            keys = self.keys.front(count)
            missing = self._find(keys)
            inserted = self._insert(keys)
            if not missing == inserted == count:
                raise RuntimeError("{} keys were missing and {} inserted, expected {}".format(missing, inserted, count))
            self.used += count
        self.device.copy(self.kept.pointer, self.index.pointer, self.index.nbytes)
        self.device.synchronize()

    def _find(self, keys):
        with self.device.use():
            return hash_index.find(self.index, keys, self.rows.front(keys.size))

    def _insert(self, keys):
        with self.device.use():
            return hash_index.insert(self.index, keys, self.rows.front(keys.size), self.used)

    def find_or_insert(self, keys):
        """What is timed: as graph_ops/stores/hashed_store.py does it."""
        return self._insert(keys) if self._find(keys) else 0

    def make_sets(self, new):
        """Sets of keys, `Array`s, of which a part is new, these all distinct."""
        options, sets = self.options, []
        fresh = int(round(new * options.keys))
        for number in range(options.sets):
            numbers = np.concatenate([self.random.randint(0, self.used, options.keys - fresh),
                                      self.used + number * fresh + np.arange(fresh)])
            sets.append(gpu_device.uploaded(self.device, self.key(self.random.permutation(numbers))))
        return sets, fresh

    def measure(self, load):
        """All operations at one load factor."""
        self.fill(load)
        sets, _ = self.make_sets(0.0)
        case = self._case("find", load, 0)
        self._time(case, sets, self._find, 0)
        self._stream(case, sets)
        self._free(sets)
        for new in self.options.new:
            sets, fresh = self.make_sets(new)
            self._time(self._case("find or insert", load, fresh), sets, self.find_or_insert, fresh)
            self._free(sets)

    def _case(self, operation, load, fresh):
        capacity = self.options.capacity
        case = {"operation": operation, "load": load, "new keys": fresh,
                "load after": round((self.used + fresh) / capacity, 4)}
        self.report["cases"].append(case)
        return case

    def _time(self, case, sets, operation, fresh):
        """Kernels, each recorded, and whole calls, in runs of their own."""
        options, device = self.options, self.device
        facts = gpu_floors.Facts(options.keys, options.keys, 0, 0, fresh)
        case["kernels"] = {}
        for clock, trace in (("events", None), ("trace", self.trace)):
            if clock == "trace" and trace is None:
                continue
            recorder, runs = gpu_recorder.Recorder(device, trace), []
            try:
                for number in range(options.repeats * len(sets) + 1):
                    self._restore()
                    run = recorder.record(lambda: operation(sets[number % len(sets)]))
                    runs += [run] if number else []  # the first loads what is missing
            except gpu_trace.TraceMissing as error:
                self.report["no trace"], self.trace = str(error), None
                continue
            case["kernels"][clock] = dict(self._rate([run.kernels for run in runs]), clock=recorder.clock)
            case["by kernel"] = gpu_report.per_kernel(runs, [facts] * len(runs), self.report["copy"]["bytes/s"])
        times = []
        for number in range(options.repeats * len(sets)):
            self._restore()
            began = time.perf_counter()
            inserted = operation(sets[number % len(sets)])
            device.synchronize()
            times.append((time.perf_counter() - began) * 1e3)
            if inserted != fresh:
                raise RuntimeError("{} rows were given out, expected {}".format(inserted, fresh))
        case["call"] = self._rate(times)
        self._restore()

    def _stream(self, case, sets):
        """Finds enqueued behind each other: launches of one cost nothing while another runs."""
        options = self.options
        if self.device.gpu is None:
            return

        def several():
            for keys in sets:
                lookup.start(keys, self.index, self.rows.front(keys.size), None)

        with self.device.use():
            times = [self.device.timed(several) / len(sets) for _ in range(options.repeats + 1)][1:]
        case["stream"] = self._rate(times)

    def _restore(self):
        """The index as `fill` left it; as much memory passes through the caches as they hold many times."""
        self.device.copy(self.index.pointer, self.kept.pointer, self.index.nbytes)
        self.device.synchronize()

    def _rate(self, times):
        found = gpu_report.summary(times)
        return {"ms": found, "10^9 keys/s": round(self.options.keys / (found["median"] / 1e3) / 1e9, 3)}

    def _free(self, sets):
        self.device.synchronize()
        for keys in sets:
            self.device.free(keys.pointer)

    def judge(self):
        """The figures to reach, by the best clock there is."""
        for case in self.report["cases"]:
            best = case["kernels"].get("trace") or case["kernels"]["events"]
            wanted = gpu_floors.HASH_TARGETS.get((case["operation"], case["load"]))
            if wanted and self.device.gpu is not None and not self.options.tiny:
                case["target"] = {"10^9 keys/s": wanted, "reached": best["10^9 keys/s"] >= wanted}

    def show(self):
        """Prints the table."""
        print("\n{} slots, {} keys a call; 10^9 keys a second".format(self.options.capacity, self.options.keys))
        line = "{:16}{:>6}{:>10}{:>12}{:>9}{:>9}{:>9}{:>9}{:>11}"
        print(line.format("operation", "load", "new keys", "load after", "events", "trace", "stream", "call", "target"))
        for case in self.report["cases"]:
            rates = [case["kernels"].get("events"), case["kernels"].get("trace"), case.get("stream"), case.get("call")]
            target = case.get("target")
            print(line.format(
                case["operation"], case["load"], case["new keys"], case["load after"],
                *("{:.2f}".format(rate["10^9 keys/s"]) if rate else "-" for rate in rates),
                "{} {}".format(target["10^9 keys/s"], "ok" if target["reached"] else "NO") if target else "-"))
        for case in self.report["cases"]:
            print("\n{} at load {}, {} new keys".format(case["operation"], case["load"], case["new keys"]))
            gpu_report.show_kernels(case["by kernel"])


def main():
    """Measures, prints, writes."""
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "0")
    options = parse()
    report = gpu_report.Report(options)
    report.update(cases=[], targets="HierarchicalKV on an H200 where it returns addresses only")
    benchmark = report.phase("start", Benchmark, options, report)
    if benchmark is not None:
        for load in options.loads:
            report.phase("load {}".format(load), benchmark.measure, load)
        report.phase("judge", benchmark.judge)
        report.phase("show", benchmark.show)
    report.end()


if __name__ == "__main__":
    main()

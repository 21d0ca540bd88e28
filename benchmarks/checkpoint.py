"""How long it takes to save and restore a table, beside `dd` of the same bytes, and the memory that it takes.

    python benchmarks/checkpoint.py                       one rank, 10^7 rows x 64
    mpiexec -np 2 python benchmarks/checkpoint.py         the same rows over two ranks
    python benchmarks/checkpoint.py --tiny                tries the code

Writes benchmarks/results/checkpoint_<cpu or gpu>_<N>.json. Dd and save take turns in being first, and each part
begins when the disk has all of the one before:

dd write   dd bs=16M conv=fsync of the checkpoint's very bytes, from a file in the page cache to another
save       CheckpointManager.save: all files, checksums, fsync, rename, the older checkpoint removed
dd read    dd of these bytes to /dev/null
restore    CheckpointManager.restore: reads all twice, once to verify before anything changes
dump       sok.Saver's dump_to_file, keys and rows alone
memory     growth of this process's resident memory over what it was before, at its peak
"""
import argparse
import os
import shutil
import subprocess
import tempfile
import threading
import time

import gpu_report
import numpy as np

from sok1x.cuda_kernels import gpu as gpus

_TINY = {"rows": 20000, "dim": 16, "rounds": 2}
TARGET = 1.3  # times dd
_KEYS_AT_ONCE = 1 << 20


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10 ** 7, help="of all ranks")
    parser.add_argument("--dim", type=int, default=64)
    parser.add_argument("--slots", type=int, default=0, choices=(0, 1, 2), help="optimizer slots: 1 momentum, 2 Adam")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", help="where to write; the default is the system's folder for temporary files")
    gpu_report.add_arguments(parser, "")
    parser.set_defaults(device="gpu" if gpus.count() else "cpu", name=None)
    return gpu_report.parse(parser, _TINY)


class Peak:
    """The most resident memory of this process while the block runs, in bytes above what it was before."""

    def __enter__(self):
        self._before = self._most = _resident()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self._thread.start()
        return self

    def _look(self):
        while not self._over.wait(0.005):
            self._most = max(self._most, _resident())

    def __exit__(self, *_):
        self._over.set()
        self._thread.join()

    @property
    def growth(self):
        return self._most - self._before


def _resident():
    # Pages of files that are mapped are not counted: they are the page cache's.
    with open("/proc/self/status") as file:
        fields = dict(line.split(":", 1) for line in file if line.startswith("Rss"))
    return 1024 * sum(int(fields[name].split()[0]) for name in ("RssAnon", "RssShmem"))


class Benchmark:
    """One model, its session and its checkpoints."""

    def __init__(self, options, report):
        import tensorflow.compat.v1 as tf

        import sok1x as sok
        self.options, self.report = options, report
        tf.logging.set_verbosity(tf.logging.ERROR)
        tf.disable_v2_behavior()
        config = tf.ConfigProto()
        config.gpu_options.allow_growth = True
        self.session = tf.Session(config=config)
        init = sok.Init(global_batch_size=1)
        self.session.run(init)
        from sok1x import launch
        self.rank, self.ranks = launch.current().rank, launch.current().size
        rows = -(-options.rows // self.ranks)
        layer = sok.All2AllDenseEmbedding(rows, options.dim, 1, 1, embedding_initializer="uniform")
        self.keys = tf.placeholder(tf.int64, [None, 1, 1])
        vectors = layer(self.keys, training=True)
        self.insert = vectors.op
        if options.slots:
            optimizer = tf.train.MomentumOptimizer(0.1, 0.9) if options.slots == 1 else tf.train.AdamOptimizer(0.1)
            variable = layer.embedding_variable
            optimizer.apply_gradients([(tf.gradients(vectors, [variable])[0], variable)])
        # Beside each other on one disk.
        base = options.folder or tempfile.gettempdir()
        name = self.everywhere("sok1x-benchmark-{}".format(os.getpid()))
        self.folder = os.path.join(base, name)
        self.manager = sok.CheckpointManager(os.path.join(self.folder, "saved"), keep_checkpoint_max=1)
        self.dump = sok.Saver().dump_to_file(layer.embedding_variable, os.path.join(self.folder, "dumped"))
        self.session.run(tf.global_variables_initializer())

    def everywhere(self, value):
        """Rank 0's value, on all ranks."""
        if self.ranks == 1:
            return value
        from mpi4py import MPI
        return MPI.COMM_WORLD.bcast(value)

    def together(self, work):
        """Seconds from when all ranks are ready to when all are done, and this rank's growth of memory."""
        self.everywhere(None)
        with Peak() as peak:
            began = time.perf_counter()
            work()
            self.everywhere(None)
            seconds = time.perf_counter() - began
        return seconds, peak.growth

    def settle(self):
        """Waits until the disk has all that was written or removed before."""
        self.everywhere(None)
        os.sync()
        self.everywhere(None)

    def fill(self):
        """Keys 0 to rows - 1, each rank a share of them."""
        mine = np.array_split(np.arange(self.options.rows, dtype=np.int64), self.ranks)[self.rank]
        most = -(-self.options.rows // self.ranks)
        for first in range(0, most, _KEYS_AT_ONCE):
            self.session.run(self.insert, {self.keys: mine[first:first + _KEYS_AT_ONCE].reshape(-1, 1, 1)})

    def measure(self):
        """All rounds."""
        times, growth = {}, {}

        def note(what, seconds, grown=None):
            times.setdefault(what, []).append(seconds)
            if grown is not None:
                growth[what] = max(growth.get(what, 0), grown)

        note("first save", *self.together(lambda: self.manager.save(self.session, 0)))
        self.report["bytes"] = nbytes = _bytes_below(os.path.join(self.folder, "saved"))
        source, spare = os.path.join(self.folder, "bytes"), os.path.join(self.folder, "dd")
        if self.rank == 0:
            _concatenate(os.path.join(self.folder, "saved"), source)

        def dd_write():
            if self.rank == 0:
                note("dd write", _dd("if=" + source, "of=" + spare, "conv=fsync"))
                os.remove(spare)

        def save():
            note("save", *self.together(lambda: self.manager.save(self.session, number)))

        for number in range(1, self.options.rounds + 1):
            for work in (dd_write, save) if number % 2 else (save, dd_write):
                self.settle()
                work()
            self.settle()
            if self.rank == 0:
                note("dd read", _dd("if=" + source, "of=/dev/null"))
            note("restore", *self.together(lambda: self.manager.restore(self.session)))
            self.settle()
            note("dump", *self.together(lambda: self.session.run(self.dump)))
        self.report["seconds of"] = {what: gpu_report.summary(values, 3) for what, values in times.items()}
        self.report["peak memory growth, bytes"] = growth
        medians = {what: found["median"] for what, found in self.report["seconds of"].items()}
        if self.rank == 0:
            self.report["ratios"] = {"save / dd write": round(medians["save"] / medians["dd write"], 2),
                                     "restore / dd read": round(medians["restore"] / medians["dd read"], 2)}
            self.report["GB/s"] = {what: round(nbytes / medians[what] / 1e9, 2)
                                   for what in ("dd write", "save", "dd read", "restore")}
            if not self.options.tiny:
                self.report["target"] = {"save / dd write": TARGET,
                                         "reached": self.report["ratios"]["save / dd write"] <= TARGET}

    def show(self):
        """Prints what was found."""
        print("{:,} rows x {}, {} ranks: {:,} bytes".format(
            self.options.rows, self.options.dim, self.ranks, self.report["bytes"]))
        growth = self.report["peak memory growth, bytes"]
        for what, found in self.report["seconds of"].items():
            speed = "{:.2f} GB/s".format(self.report["GB/s"][what]) if what in self.report["GB/s"] else ""
            memory = "{:+.1f} MB of memory".format(growth[what] / 1e6) if what in growth else ""
            print("{:12}{:9.3f} s  {:10}  {}".format(what, found["median"], speed, memory))
        print(self.report["ratios"], self.report.get("target", ""))

    def close(self):
        """Removes what was written."""
        self.everywhere(None)
        if self.rank == 0:
            shutil.rmtree(self.folder, ignore_errors=True)


def _dd(*arguments):
    began = time.perf_counter()
    subprocess.check_call(["dd", "bs=16M", "status=none"] + list(arguments))
    return time.perf_counter() - began


def _concatenate(folder, path):
    """The bytes of all files below a folder in one file."""
    with open(path, "wb") as target:
        for place, _, names in os.walk(folder):
            for name in names:
                with open(os.path.join(place, name), "rb") as file:
                    shutil.copyfileobj(file, target, 16 << 20)


def _bytes_below(folder):
    return sum(os.path.getsize(os.path.join(path, name)) for path, _, names in os.walk(folder) for name in names)


def main():
    """Measures, prints, writes."""
    options = parse()
    given, options.name = options.name, ""
    report = gpu_report.Report(options)
    benchmark = Benchmark(options, report)
    report["ranks"] = benchmark.ranks
    try:
        report.phase("fill", benchmark.fill)
        report.phase("measure", benchmark.measure)
    finally:
        benchmark.close()
    if benchmark.rank == 0:
        name = "checkpoint_{}_{}".format(options.device, benchmark.ranks) if given is None else given
        if name and not options.tiny:
            report.path = os.path.join(gpu_report.HERE, "results", name + ".json")
        if not report["failed"]:
            benchmark.show()
        report.end()


if __name__ == "__main__":
    main()

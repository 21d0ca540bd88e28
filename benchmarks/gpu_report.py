"""Figures summed up, printed and written."""
import collections
import os
import sys
import time
import traceback

import gpu_floors
import machine
import numpy as np

from sok1x.cuda_kernels import gpu as gpus

HERE = os.path.dirname(os.path.abspath(__file__))
DEVICE_VERSIONS = ("tensorflow-gpu", "nvidia-tensorflow", "pycuda")


def summary(values, digits=4):
    """Median, quartiles and least of a list."""
    low, median, high = np.percentile(values, [25, 50, 75])
    return {"median": round(float(median), digits), "least": round(float(min(values)), digits), "count": len(values),
            "quartiles": [round(float(low), digits), round(float(high), digits)]}


def figure(value, digits=3):
    """A number to so many significant digits: small ones are not rounded to 0."""
    return float("{:.{}g}".format(value, digits))


def per_kernel(runs, facts, bandwidth):
    """What each kernel does in a run, launches of one name together.

    Args:
        runs: list of `gpu_recorder.Run`. facts: their `gpu_floors.Facts`. bandwidth: bytes a second, or None.

    Returns:
        List of dicts, the longest first: kernel, launches, ms (median over runs); where known bytes that it must move
        (mean), GB/s achieved, ms of its floor, and how many times that it takes.
    """
    spent = collections.OrderedDict()
    for run, fact in zip(runs, facts):
        here = collections.OrderedDict()
        for launch in run.launches:
            entry = here.setdefault(launch.name, [0, 0.0, 0])
            entry[0] += 1
            entry[1] += launch.end - launch.start
            nbytes = gpu_floors.kernel_bytes(launch, fact)
            entry[2] = None if nbytes is None or entry[2] is None else entry[2] + nbytes
        for name, entry in here.items():
            spent.setdefault(name, []).append(entry)
    rows = []
    for name, entries in spent.items():
        # A kernel that some runs do not have (as for keys that are new) took no time in these.
        ms = float(np.median([entry[1] for entry in entries] + [0.0] * (len(runs) - len(entries))))
        row = {"kernel": name, "launches": int(np.median([entry[0] for entry in entries])), "ms": round(ms, 4)}
        if all(entry[2] is not None for entry in entries) and ms and bandwidth:
            nbytes = float(np.mean([entry[2] for entry in entries]))
            floor = nbytes / bandwidth * 1e3
            row.update({"bytes": int(nbytes), "GB/s": round(nbytes / ms / 1e6, 1), "floor ms": round(floor, 4),
                        "times floor": round(ms / floor, 2)})
        rows.append(row)
    return sorted(rows, key=lambda row: -row["ms"])


def show_kernels(rows):
    """Prints `per_kernel`'s rows."""
    print("  {:20}{:>9}{:>10}{:>12}{:>10}{:>11}{:>9}".format(
        "kernel", "launches", "us", "MB to move", "GB/s", "floor us", "times"))
    for row in rows:
        known = "{:>12.2f}{:>10.0f}{:>11.1f}{:>9.2f}".format(
            row["bytes"] / 1e6, row["GB/s"], row["floor ms"] * 1e3, row["times floor"]) if "bytes" in row else ""
        print("  {:20}{:>9}{:>10.1f}{}".format(row["kernel"], row["launches"], row["ms"] * 1e3, known))


class Report(dict):
    """A report that is written after each phase: what a crash leaves is what was measured before.

    Args:
        options: the parsed arguments; `name` is the file's (an absolute path without .json is fine, '' writes none),
            `commit` the commit where there is no git.
    """

    def __init__(self, options):
        described = machine.describe()
        described["commit"] = options.commit or described["commit"]
        recorded = dict(vars(options), name=os.path.basename(options.name))
        super().__init__(described, options=recorded, failed={}, seconds={})
        self["versions"].update(_versions())
        self.path = os.path.join(HERE, "results", options.name + ".json") if options.name else None

    def write(self):
        """Writes the file as it stands."""
        if self.path:
            machine.write(self, self.path)

    def phase(self, name, function, *arguments):
        """Calls a function and writes the report; where it fails, that is noted, and others may go on.

        Returns:
            What the function returns, None where it fails.
        """
        began = time.time()
        try:
            return function(*arguments)
        except Exception as error:
            self["failed"][name] = "{}: {}".format(type(error).__name__, error)
            traceback.print_exc()
            return None
        finally:
            self["seconds"][name] = round(time.time() - began, 1)
            print("{:7.1f} s  {}".format(self["seconds"][name], name), file=sys.stderr, flush=True)
            self.write()

    def end(self):
        """Writes, and exits with 1 where a phase failed."""
        self.write()
        if self.path:
            print("\nwritten: " + os.path.relpath(self.path))
        if self["failed"]:
            sys.exit("failed: " + "; ".join("{} ({})".format(*item) for item in self["failed"].items()))


def add_arguments(parser, name):
    """The arguments that all GPU benchmarks have."""
    parser.add_argument("--tiny", action="store_true", help="small sizes, to try the code; needs no GPU")
    parser.add_argument("--device", choices=("auto", "gpu", "cpu"), default="auto", help="auto: a GPU if there is one")
    parser.add_argument("--no-trace", action="store_true", help="CUDA events only, no trace by CUPTI")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--commit", default="", help="what to write as the commit, where there is no git")
    parser.add_argument("--name", default=name, help="of the JSON file; '' writes none")


def parse(parser, tiny):
    """Parses; with --tiny, what was left at its default is small: `tiny` is a dict of such values."""
    options = parser.parse_args()
    if options.tiny:
        for name, value in tiny.items():
            if getattr(options, name) == parser.get_default(name):
                setattr(options, name, value)
        if options.name == parser.get_default("name"):
            options.name = ""
    elif options.device == "auto" and not gpus.count():
        parser.error("PyCUDA finds no GPU; --tiny tries the code without one")
    return options


def _versions():
    import pkg_resources
    found = {}
    for name in DEVICE_VERSIONS:
        try:
            found[name] = pkg_resources.get_distribution(name).version
        except pkg_resources.DistributionNotFound:
            continue
    return found

"""What rank 0 does in a step to bring the ranks' exchanges into one order, for up to 256 ranks, by simulation.

    python benchmarks/coordinator.py [--mpiexec 'mpiexec --oversubscribe']

Measured are the cost of a message, between two ranks of this machine over MPI, in C++ and in Python; and what rank 0
does with the messages, on all ranks' messages made here: by C++, which has the steps after the first, and by Python,
which has the first, and whatever is unusual. A step is one word for all lookups and one for all gradients; rank 0 gets
a message of each other rank for a word, and sends one to each. All times are of the CPU, of one thread, so that other
programs on this machine count little. Writes benchmarks/results/coordinator.json.
"""
import argparse
import ctypes
import json
import os
import sys
import time

import jobs
import machine
import numpy as np

sys.path.insert(0, os.path.join(machine.ROOT, "tests", "launch"))

RANKS = (2, 8, 16, 64, 256)
TABLES = (1, 26)
STEP_MS, SHARE = 1.0, 0.1  # rank 0 is to take no more than this share of such a step at 64 ranks
WHOLE_UP_TO = 8  # launch/environment.py: whole_headers
OUT = os.path.join(machine.ROOT, "benchmarks", "results", "coordinator.json")

# Of lookups and gradients: numbers of a header without the counts, how many counts a rank tells.
KINDS = {"a row a key": ((2, 1), (3, 2)), "bags, exchange chosen": ((5, 1), (4, 2))}


def library():
    """The bridge's library, for ctypes."""
    from sok1x.graph_ops.bridge import bridge
    from sok1x.graph_ops.bridge import library as op_library
    op_library.load()
    loaded = bridge.Library(bridge.PATH).loaded
    loaded.sok1x_leader_cost.argtypes = [ctypes.c_int] * 5 + [ctypes.c_void_p] * 2
    return loaded


def in_cpp(loaded, ranks, tables, width, varied):
    """One word: (seconds to read and decide, seconds to write the word, bytes of a bundle, bytes of a word)."""
    words = max(3, min(300, int(3e6 / (ranks * tables * width))))
    found = []
    for _ in range(3):
        seconds, sizes = (ctypes.c_double * 3)(), (ctypes.c_int64 * 2)()
        code = loaded.sok1x_leader_cost(ranks, tables, width, varied, words, seconds, sizes)
        assert code == 0, code
        found.append((seconds[0], seconds[1]))
    return tuple(np.min(found, axis=0)) + tuple(sizes)


def in_python(ranks, tables, numbers):
    """One word, by the leader in Python, with headers of so many numbers: (seconds, bytes of a bundle, of a word)."""
    from launch_simulation import Job, ready
    job, plan = Job(ranks), "\n".join("op {}".format(op) for op in range(tables))
    found = []
    for step in range(4):
        for rank, coordinator in enumerate(job.ranks):
            coordinator.announce_all([ready(op, np.arange(numbers) * 7 + rank, plan=plan, step=step + 1, instance=(
                0, 0, 0, 5)) for op in range(tables)])
        if ranks > 1:
            bundle = len(job.wires.under_way[1, 0][-1])
        job.wires.deliver_all()
        began = time.thread_time()
        job.poll(0)
        found.append(time.thread_time() - began)
        word = len(job.wires.under_way[0, 1][-1])
        job.settle()
        assert all(len(heard) == (step + 1) * tables for heard in job.heard)
    return min(found[1:]), bundle, word  # the first introduces ops


def at(costs, size):
    """Seconds of a message of so many bytes, between those that were measured, or beyond by the last two."""
    sizes, seconds = [one["bytes"] for one in costs], [one["us"] * 1e-6 for one in costs]
    if size <= sizes[-1]:
        return float(np.interp(size, sizes, seconds))
    return seconds[-1] + (size - sizes[-1]) * max(0.0, (seconds[-1] - seconds[-2]) / (sizes[-1] - sizes[-2]))


def step(words, ranks, messages):
    """The figures of a step. words: of each (seconds, bytes of a bundle, of a word). messages: their costs."""
    others = ranks - 1
    took = {"deciding": sum(word[0] for word in words),
            "receiving": others * sum(at(messages["receive"], word[1]) for word in words),
            "sending": others * sum(at(messages["send"], word[2]) for word in words)}
    total = 1e3 * sum(took.values())
    return {"messages": 2 * others * len(words), "bytes in": others * sum(word[1] for word in words),
            "bytes out": others * sum(word[2] for word in words),
            "ms": dict({name: round(1e3 * value, 4) for name, value in took.items()}, all=round(total, 4)),
            "share of {:g} ms".format(STEP_MS): round(total / STEP_MS, 4)}


def cases(loaded, messages):
    """All cases, a list."""
    found = []
    for kind, (forward, backward) in KINDS.items():
        for tables in TABLES:
            for ranks in RANKS:
                for headers in ("short", "whole"):
                    widths = [own + (counts * ranks if headers == "whole" else 0)
                              for own, counts in (forward, backward)]
                    case = {"kind": kind, "tables": tables, "ranks": ranks, "headers": headers,
                            "used": (headers == "whole") == (ranks <= WHOLE_UP_TO)}
                    if ranks * tables * max(widths) > 3e5:
                        continue  # hundreds of megabytes a step
                    words = []
                    for width, varied in zip(widths, (forward[0] > 2 or headers == "whole", headers == "whole")):
                        read, write, bundle, word = in_cpp(loaded, ranks, tables, width, varied)
                        words.append((read + write, bundle, word))
                    found.append(dict(case, by="C++", **step(words, ranks, messages["C++"])))
                    if kind == "a row a key" and ranks <= 64 and ranks * tables * max(widths) < 1e5:
                        found.append(dict(case, by="Python", **step(
                            [in_python(ranks, tables, width) for width in widths], ranks, messages["Python"])))
                    print(json.dumps(found[-1]))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mpiexec", default="mpiexec --oversubscribe")
    parser.add_argument("--output", default=OUT)
    options = parser.parse_args()
    report = machine.describe()
    report["messages, microseconds"] = messages = jobs.start(
        "coordinator_rank.py", {}, jobs.launcher(options.mpiexec, 2), {"OMPI_MCA_mpi_yield_when_idle": "1"}, 300)
    for way in ("send", "receive"):  # longer ones go by Python
        messages["C++"][way] += [one for one in messages["Python"][way] if one["bytes"] > 4000]
    report["limit"] = {"step, ms": STEP_MS, "share": SHARE, "ranks": 64}
    report["cases"] = cases(library(), messages)
    with open(options.output, "w") as file:
        json.dump(report, file, indent=1, sort_keys=True)
        file.write("\n")


if __name__ == "__main__":
    main()

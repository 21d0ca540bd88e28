"""What rank 0 does in a step to bring the ranks' exchanges into one order, for up to 256 ranks, by simulation.

    python benchmarks/coordinator.py [--mpiexec 'mpiexec --oversubscribe']

Measured are the cost of a message, between two ranks of this machine over MPI, in C++ and in Python (the dearest of
some runs, as much depends on which CPUs two processes have); and what rank 0 does with the messages, on all ranks'
messages made here: by C++, which has the steps after the first, and by Python, which has the first, and whatever is
unusual. A step is one word for all lookups and one for all gradients. For a word rank 0 gets a message of each other
rank, and sends one to each; or of the few that talk with it in a tree (launch/tree.py), of which the busiest other rank
is looked at too. All times are of the CPU, of one thread, so that other programs on this machine count little. Writes
benchmarks/results/coordinator.json.
"""
import argparse
import ctypes
import itertools
import json
import os
import sys
import time

import jobs
import machine
import numpy as np

sys.path.insert(0, os.path.join(machine.ROOT, "tests", "launch"))

RANKS = (2, 8, 12, 16, 24, 64, 256)
TABLES = (1, 26)
STEP_MS, SHARE = 1.0, 0.1  # rank 0 is to take no more than this share of such a step at 64 ranks
WHOLE_UP_TO = 8  # launch/environment.py: whole_headers
WIDTHS = (2, 3, 4, 8)  # of trees; None: all talk with rank 0
PER_HOST = 8
MESSAGE_RUNS = 3
OUT = os.path.join(machine.ROOT, "benchmarks", "results", "coordinator.json")

ALIKE, VARIED, AT_ODDS = range(3)  # how ranks' headers differ: Says in graph_ops/groups/leader_cost.cc
COUNTS = 1, 2  # that a rank tells of each rank in a whole header, of a lookup and of a gradient
# How many numbers else are in the headers of both. "At odds": ranks wish for different exchanges, of one table.
KINDS = {("a row a key", "short"): ((2, 3), ALIKE), ("a row a key", "whole"): ((2, 3), VARIED),
         ("bags, exchange chosen", "short"): ((3, 4), ALIKE), ("bags, exchange chosen", "whole"): ((5, 4), VARIED),
         ("bags, exchange chosen, ranks at odds", "short"): ((3, 4), AT_ODDS)}


def library():
    """The bridge's library, for ctypes."""
    from sok1x.graph_ops.bridge import bridge, op_functions
    from sok1x.graph_ops.bridge import library as op_library
    op_library.load()
    loaded = op_functions.Library(bridge.PATH).loaded
    loaded.sok1x_leader_cost.argtypes = [ctypes.c_int] * 6 + [ctypes.c_void_p] * 3
    return loaded


def parents_of(ranks, width):
    """By way of which rank each one talks with rank 0: see launch/tree.py."""
    from sok1x.launch import tree
    return tree.deep([rank // PER_HOST for rank in range(ranks)], width) if width else tree.flat(ranks)


def in_cpp(loaded, ranks, tables, numbers, tied, says, width):
    """One word, of lookups or (tied) gradients: dict of seconds (deciding, a rank on the way), messages to rank 0 and
    their bytes, words and bytes."""
    words = max(3, min(40, int(2e5 / (ranks * tables * numbers))))
    parents = parents_of(ranks, width)
    found = []
    for _ in range(10):  # other programs of this machine empty the caches now and then
        seconds, sizes = (ctypes.c_double * 4)(), (ctypes.c_int64 * 4)()
        code = loaded.sok1x_leader_cost(ranks, tables, numbers, tied, says, words, (ctypes.c_int64 * ranks)(*parents),
                                        seconds, sizes)
        assert code == 0, code
        found.append(seconds[:])
    read, write, _, passing = np.min(found, axis=0)
    return {"deciding": read + write, "passing": passing, "in": sizes[0], "bytes in": sizes[1], "out": sizes[2],
            "a word": sizes[3]}


def in_python(ranks, tables, numbers, width):
    """One word, by the leader in Python, with headers of so many numbers: as `in_cpp`."""
    from launch_simulation import Job, ready
    job, plan = Job(ranks, width=width), "\n".join("op {}".format(op) for op in range(tables))
    found, children = [], job.ranks[0].tree.children
    for step in range(4):
        for rank, coordinator in enumerate(job.ranks):
            coordinator.announce_all([ready(op, np.arange(numbers) * 7 + rank, plan=plan, step=step + 1, instance=(
                0, 0, 0, 5)) for op in range(tables)])
        for _ in range(job.depth - 1):
            job.wires.deliver_all()
            for rank in range(ranks - 1, 0, -1):
                job.poll(rank)
        came = [len(data) for child in children for data in job.wires.under_way[child, 0]]
        job.wires.deliver_all()
        began = time.thread_time()
        job.poll(0)
        found.append(time.thread_time() - began)
        words = [len(data) for child in children for data in job.wires.under_way[0, child]]
        job.settle()
        assert all(len(heard) == (step + 1) * tables for heard in job.heard)
    return {"deciding": min(found[1:]), "passing": 0.0, "in": len(came), "bytes in": sum(came),
            "out": len(words), "a word": words[0]}  # the first word introduces ops


def dearest(runs):
    """The costs of messages where they were highest: they depend on which CPUs two processes happen to have."""
    return {by: {way: [dict(one, us=max(run[by][way][number]["us"] for run in runs))
                       for number, one in enumerate(costs)] for way, costs in ways.items()}
            for by, ways in runs[0].items()}


def at(costs, size):
    """Seconds of a message of so many bytes, between those that were measured, or beyond by the last two."""
    sizes, seconds = [one["bytes"] for one in costs], [one["us"] * 1e-6 for one in costs]
    if size <= sizes[-1]:
        return float(np.interp(size, sizes, seconds))
    return seconds[-1] + (size - sizes[-1]) * max(0.0, (seconds[-1] - seconds[-2]) / (sizes[-1] - sizes[-2]))


def depth_of(ranks, width):
    """By way of how many ranks the last one talks with rank 0."""
    from sok1x.launch import tree
    place = tree.of(0, parents_of(ranks, width))
    return max(len(place.way(rank)) for rank in range(1, ranks))


def step(words, messages, ranks, width):
    """The figures of a step. words: what `in_cpp` gives of each. messages: their costs."""
    took = {"deciding": sum(word["deciding"] for word in words),
            "receiving": sum(word["in"] * at(messages["receive"], word["bytes in"] / word["in"]) for word in words),
            "sending": sum(word["out"] * at(messages["send"], word["a word"]) for word in words)}
    total = 1e3 * sum(took.values())
    # A rank on the way hears no more ranks than rank 0 does, and gets one word and sends one message besides.
    besides = sum(word["passing"] - word["deciding"] + at(messages["receive"], word["a word"]) + at(
        messages["send"], word["bytes in"] / word["in"]) for word in words)
    passing, levels = total + 1e3 * besides, depth_of(ranks, width)
    return {"messages": sum(word["in"] + word["out"] for word in words),
            "bytes in": sum(word["bytes in"] for word in words),
            "bytes out": sum(word["out"] * word["a word"] for word in words),
            "ms": dict({name: round(1e3 * value, 4) for name, value in took.items()}, all=round(total, 4)),
            "ms of a rank on the way, at most": round(passing, 4) if levels else None,
            "ms until all have it": round(total + levels * passing, 4),
            "share of {:g} ms".format(STEP_MS): round(total / STEP_MS, 4)}


def cases(loaded, messages):
    """All cases, a list."""
    found = []
    for ((kind, headers), (own, says)), tables, ranks, width in itertools.product(
            KINDS.items(), TABLES, RANKS, (None,) + WIDTHS):
        numbers = [one + (counts * ranks if headers == "whole" else 0) for one, counts in zip(own, COUNTS)]
        case = {"kind": kind, "tables": tables, "ranks": ranks, "headers": headers, "width": width,
                "used": (headers == "whole") == (ranks <= WHOLE_UP_TO)}
        if ranks * tables * max(numbers) > 3e5:
            continue  # hundreds of megabytes a step
        if width and (ranks <= 8 or headers == "whole"):
            continue
        words = [in_cpp(loaded, ranks, tables, one, tied, says, width) for tied, one in enumerate(numbers)]
        found.append(dict(case, by="C++", **step(words, messages["C++"], ranks, width)))
        print(json.dumps(found[-1]))
        if kind == "a row a key" and headers == "short" and ranks * tables <= 64 and width in (None, 3):
            found.append(dict(case, by="Python", **step(
                [in_python(ranks, tables, one, width) for one in numbers], messages["Python"], ranks, width)))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mpiexec", default="mpiexec --oversubscribe")
    parser.add_argument("--output", default=OUT)
    options = parser.parse_args()
    report = machine.describe()
    runs = [jobs.start("coordinator_rank.py", {}, jobs.launcher(options.mpiexec, 2), {
        "OMPI_MCA_mpi_yield_when_idle": "1"}, 300) for _ in range(MESSAGE_RUNS)]
    report["messages, microseconds"] = messages = dearest(runs)
    report["messages, microseconds, of each run"] = runs
    for way in ("send", "receive"):  # longer ones go by Python
        messages["C++"][way] += [one for one in messages["Python"][way] if one["bytes"] > 4000]
    report["limit"] = {"step, ms": STEP_MS, "share": SHARE, "ranks": 64}
    report["cases"] = cases(library(), messages)
    machine.write(report, options.output)


if __name__ == "__main__":
    main()

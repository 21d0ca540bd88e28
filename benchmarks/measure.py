"""Times one or both sides of each case in one process per rank. Started by embedding.py:

    [mpiexec -np N] python benchmarks/measure.py OPTIONS.json RESULT.json
"""
import argparse
import json
import sys
import time

import numpy as np
import profiling
import tensorflow.compat.v1 as tf
import whole_steps
from sides import SIDES
from workload import make_batches

from sok1x import launch


class Ranks:
    """Who takes part. Horovod is initialized where it is measured and nowhere else: its thread exchanges something
    with the other ranks every millisecond, also when there is nothing to do."""

    def __init__(self, horovod, alone):
        self.comm, self.rank, self.size = None, 0, 1
        if horovod:
            import horovod.tensorflow as hvd
            hvd.init()
        if not alone:
            from mpi4py import MPI
            self.comm, self.rank, self.size = MPI.COMM_WORLD, MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size

    def barrier(self):
        """Waits for all ranks."""
        if self.comm is not None:
            self.comm.Barrier()

    def gather(self, value):
        """The values of all ranks, on all ranks."""
        return [value] if self.comm is None else self.comm.allgather(value)


def asked():
    """The options that whoever started this rank has written."""
    with open(sys.argv[1]) as file:
        return argparse.Namespace(**json.load(file))


def answer(ranks, found):
    """Rank 0 writes what has been found."""
    if ranks.rank == 0:
        with open(sys.argv[2], "w") as file:
            json.dump(found, file)


def time_steps(sides, batches, options, ranks):
    """Milliseconds of each step by side, on the slowest rank; in rounds: A A A B B B, then B B B A A A, ..."""
    names = sorted(sides)
    times = {name: [] for name in names}
    for side in sides.values():
        for batch in batches:
            side.select(batch)
            ranks.barrier()
            side.run()
    for round_number in range(options["rounds"]):
        for name in names if round_number % 2 else reversed(names):
            for step in range(options["steps"]):
                sides[name].select(batches[(round_number * options["steps"] + step) % len(batches)])
                ranks.barrier()
                began = time.perf_counter()
                sides[name].run()
                times[name].append((time.perf_counter() - began) * 1e3)
    gathered = ranks.gather(times)
    return {name: np.max([each[name] for each in gathered], axis=0).tolist() for name in names}


def losses(sides, batches, ranks):
    """{side: [a batch's loss, and what a step on it takes from that]}, of all ranks together."""
    found = {}
    for name, side in sides.items():
        side.select(batches[0])
        ranks.barrier()
        before = np.sum(ranks.gather(side.loss()))
        side.run()
        ranks.barrier()
        found[name] = [float(before), float(before - np.sum(ranks.gather(side.loss())))]
    return found


def exchanged(side, batches, ranks, mode, options):
    """Bytes that a rank gives to other ranks in a step, averaged over batches and ranks."""
    communicator = launch.current().communicator
    before = communicator.bytes_sent
    for batch in batches:
        side.select(batch)
        ranks.barrier()
        side.run()
    sent = (communicator.bytes_sent - before) / float(len(batches))
    row = 4 * options["dim"]
    # If every key travelled, as often as it occurs: to its owner, its row back (others ask as much of this rank as it
    # asks of them, on average), and in training its gradient.
    away = np.mean([np.sum(batch.keys % ranks.size != ranks.rank) for batch in batches])
    found = {"sok1x": sent, "sok1x without distinct keys": away * (8 + row + (0 if mode == "forward" else row))}
    if mode != "forward":
        # Horovod gathers all ranks' IndexedSlices, a row of gradient and an index for each key looked up:
        # embedding_lookup_sparse looks distinct keys up, embedding_lookup every one.
        looked_up = np.mean([batch.distinct() if batch.layout == "sparse" else len(batch.keys) for batch in batches])
        found["horovod"] = looked_up * (8 + row) * (ranks.size - 1)
    gathered = ranks.gather(found)
    return {name: int(np.mean([each[name] for each in gathered])) for name in found}


def run_case(layout, mode, options, ranks):
    """Everything measured about one case."""
    batches = make_batches(layout, options, ranks.rank)
    options["keys"] = {layout: len(batches[0].keys)}
    config = whole_steps.config(intra_op_parallelism_threads=options["threads"],
                                inter_op_parallelism_threads=options["inter_op_threads"])
    sides = {name: SIDES[name](layout, mode, options, config, ranks.size) for name in options["sides"]}
    result = {"layout": layout, "mode": mode, "keys": len(batches[0].keys),
              "distinct": float(np.mean(ranks.gather(np.mean([batch.distinct() for batch in batches])))),
              "losses": losses(sides, batches, ranks), "times": time_steps(sides, batches, options, ranks)}
    if ranks.size > 1 and "sok1x" in sides:
        result["bytes"] = exchanged(sides["sok1x"], batches, ranks, mode, options)
    if options["profile"]:
        result["profile"] = profiling.profile(sides, batches, ranks)
    for side in sides.values():
        side.close()
    return result


def main():
    options = vars(asked())
    tf.logging.set_verbosity(tf.logging.ERROR)
    ranks = Ranks("horovod" in options["sides"], options["ranks"] == 1)
    cases = []
    for layout in options["layouts"]:
        for mode in options["modes"]:
            cases.append(run_case(layout, mode, options, ranks))
            if ranks.rank == 0:
                print("measured: {} {}, {}".format(layout, mode, " and ".join(options["sides"])), file=sys.stderr,
                      flush=True)
    if ranks.rank == 0:
        world = launch.current()
        about = {"kernel threads": world.host_threads, "world": world.description} if world else {}
        answer(ranks, {"cases": cases, "about": about})


if __name__ == "__main__":
    tf.disable_v2_behavior()
    main()

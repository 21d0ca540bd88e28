"""Times one case of both sides in one process per rank. Started by embedding.py:

    [mpiexec -np N] python benchmarks/measure.py OPTIONS.json RESULT.json
"""
import json
import sys
import time

import numpy as np
import profiling
import tensorflow.compat.v1 as tf
from sides import Horovod, Sok1x, Stock
from workload import make_batches

from sok1x import launch


def time_steps(sides, batches, options, barrier):
    """Milliseconds of each step by side, in rounds: A A A B B B, then B B B A A A, ..."""
    names = sorted(sides)
    times = {name: [] for name in names}
    for side in sides.values():
        for batch in batches:
            side.select(batch)
            barrier()
            side.run()
    for round_number in range(options["rounds"]):
        for name in names if round_number % 2 else reversed(names):
            for step in range(options["steps"]):
                sides[name].select(batches[(round_number * options["steps"] + step) % len(batches)])
                barrier()
                began = time.perf_counter()
                sides[name].run()
                times[name].append((time.perf_counter() - began) * 1e3)
    return times


def exchanged(sok_side, batches, rank, ranks, mode, barrier, options):
    """Bytes that this rank gives to other ranks in a step, averaged over the batches."""
    communicator = launch.current().communicator
    before = communicator.bytes_sent
    for batch in batches:
        sok_side.select(batch)
        barrier()
        sok_side.run()
    row = 4 * options["dim"]
    # What stays away from this rank if every key of the batch travels, as often as it occurs: the key to its owner,
    # in training a gradient as well; and this rank answers as many others' keys with rows.
    away = np.mean([np.sum(batch.keys % ranks != rank) for batch in batches])
    found = {"sok1x": (communicator.bytes_sent - before) / float(len(batches)),
             "without distinct keys": away * (8 + row + (0 if mode == "forward" else row))}
    if mode != "forward":
        # Horovod gathers all ranks' IndexedSlices, a row of gradient and an index for every key looked up.
        # embedding_lookup_sparse looks distinct keys up, embedding_lookup every one.
        looked_up = np.mean([batch.distinct() if batch.layout == "sparse" else len(batch.keys) for batch in batches])
        found["horovod"] = looked_up * (8 + row) * (ranks - 1)
    return found


def run_case(layout, mode, options, rank, ranks, comm):
    """Everything measured about one case, on this rank."""
    batches = make_batches(layout, options, rank)
    options["keys"] = {layout: len(batches[0].keys)}
    config = tf.ConfigProto(intra_op_parallelism_threads=options["threads"],
                            inter_op_parallelism_threads=options["inter_op_threads"])
    baseline = Horovod if options["baseline"] == "horovod" else Stock
    barrier = comm.Barrier if comm else (lambda: None)
    sides = {"sok1x": Sok1x(layout, mode, options, config, ranks),
             "baseline": baseline(layout, mode, options, config)}
    result = {"layout": layout, "mode": mode, "times": time_steps(sides, batches, options, barrier),
              "keys": len(batches[0].keys), "distinct": float(np.mean([batch.distinct() for batch in batches]))}
    if ranks > 1:
        result["bytes"] = exchanged(sides["sok1x"], batches, rank, ranks, mode, barrier, options)
    if options["profile"]:
        result["profile"] = profiling.profile(sides, batches, barrier)
    for side in sides.values():
        side.close()
    return result


def main():
    with open(sys.argv[1]) as file:
        options = json.load(file)
    tf.logging.set_verbosity(tf.logging.ERROR)
    comm, rank, ranks = None, 0, 1
    if options["baseline"] == "horovod":
        import horovod.tensorflow as hvd
        hvd.init()
        from mpi4py import MPI
        comm, rank, ranks = MPI.COMM_WORLD, hvd.rank(), hvd.size()
    results = []
    for layout in options["layouts"]:
        for mode in options["modes"]:
            result = run_case(layout, mode, options, rank, ranks, comm)
            if ranks > 1:
                gathered = comm.allgather(result)
                # A step is over when it is over on all ranks.
                result["times"] = {name: np.max([each["times"][name] for each in gathered], axis=0).tolist()
                                   for name in result["times"]}
                result["bytes"] = {name: float(np.mean([each["bytes"][name] for each in gathered]))
                                   for name in result["bytes"]}
            results.append(result)
            if rank == 0:
                print("measured: {} {}".format(layout, mode), file=sys.stderr, flush=True)
    world = launch.current()
    if rank == 0:
        with open(sys.argv[2], "w") as file:
            json.dump({"cases": results, "kernel_threads": world.host_threads, "world": world.description}, file)


if __name__ == "__main__":
    main()

"""Trains for a while with a checkpoint every fifth of a second; rank 0 also runs things that the others do not.

    mpiexec -np N python program_seconds.py DIR
"""
import sys
import time

import numpy as np
import tensorflow.compat.v1 as tf

import sok1x as sok
from sok1x.checkpoint.files import folders

SECONDS = 1.5


def saved():
    return len(folders.complete(sys.argv[1]))


def main():
    from mpi4py import MPI
    comm = MPI.COMM_WORLD
    layer = sok.All2AllDenseEmbedding(100, 4, 1, 1)
    keys = tf.placeholder(tf.int64, [None, 1, 1])
    number = tf.train.get_or_create_global_step()
    # Two steps at a time: what a run shows of the global step is from before or after them, as chance will have it.
    step = tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(layer(keys)))
    with tf.control_dependencies([step]):
        step = tf.group(number.assign_add(2))
    hooks = [sok.InitHook(global_batch_size=4), sok.CheckpointSaverHook(sys.argv[1], save_secs=0.2)]
    with tf.train.MonitoredTrainingSession(hooks=hooks) as session:
        runs, end = 0, None
        while end is None or comm.bcast(time.time() < end or time.time() < end + 60 and saved() < 3):
            session.run(step, {keys: np.arange(4).reshape(-1, 1, 1)})
            runs += 1
            if end is None:  # the first run may have had kernels to load
                end = time.time() + SECONDS
            if comm.rank == 0:
                session.run(number)
        assert session.run(number) == 2 * runs
    sys.stdout.write("rank {}: {} runs\n".format(comm.rank, runs))


if __name__ == "__main__":
    tf.logging.set_verbosity(tf.logging.ERROR)
    main()

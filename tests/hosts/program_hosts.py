"""Trains tables of both kinds and a dense layer, the same on any hosts, and prints a line of JSON for each rank.

    program_hosts.py [--horovod] [--save FOLDER [--resume]] [--steps N] [--pause SECONDS] [--slow SECONDS]

"begun R" comes from each rank after two steps, from when the test breaks what it wants to. --save: saves after half of
the steps, says "saved R", goes on, restores, and goes on again, to the same end. --resume: begins with what is saved
there. --slow: the last rank sleeps before its last step.
"""
import argparse
import hashlib
import json
import os
import sys
import time

import numpy as np
import tensorflow as tf

import sok1x as sok
from sok1x import launch

tf.compat.v1.logging.set_verbosity("ERROR")
SAMPLES, SLOTS, KEYS, DIM = 512, 4, 2000, 32


def say(text):
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def digest(*arrays):
    """What two runs are compared by: every bit of these."""
    hashed = hashlib.blake2b(digest_size=8)
    for array in arrays:
        hashed.update(np.ascontiguousarray(array).tobytes())
    return hashed.hexdigest()


class Model:
    """A dense and a sparse layer, and a dense layer of TensorFlow over both."""

    def __init__(self):
        one = sok.All2AllDenseEmbedding(KEYS, DIM, SLOTS, 1)
        other = sok.DistributedEmbedding("sum", KEYS, DIM, SLOTS, 2)
        self.keys = tf.compat.v1.placeholder(tf.int64, [None, SLOTS, 1])
        self.pairs = tf.compat.v1.placeholder(tf.int64, [None, SLOTS, 2])
        ids = tf.reshape(self.pairs, [-1])
        places = tf.range(tf.size(ids, out_type=tf.int64))
        sparse = tf.SparseTensor(
            tf.stack([places // 2, places % 2], 1), ids, tf.cast([tf.shape(self.pairs)[0] * SLOTS, 2], tf.int64))
        seen = tf.concat([tf.reshape(one(self.keys, training=True), [-1, SLOTS * DIM]),
                          tf.reshape(other(sparse, training=True), [-1, SLOTS * DIM])], 1)
        self.kernel = tf.compat.v1.get_variable("kernel", initializer=tf.linspace(-1.0, 1.0, 2 * SLOTS * DIM))
        self.loss = tf.reduce_sum(tf.square(tf.linalg.matvec(seen, self.kernel) - 1)) / SAMPLES
        optimizer = sok.DistributedOptimizer(tf.compat.v1.train.AdamOptimizer(0.01), average=False)
        self.train = optimizer.minimize(self.loss)
        self.tables = [one.embedding_variable, other.embedding_variable]


def feed(model, step, rank, ranks):
    """This rank's samples: its part of those that all ranks together have in any number."""
    random = np.random.RandomState(step)
    mine = slice(rank * SAMPLES // ranks, (rank + 1) * SAMPLES // ranks)
    return {model.keys: random.randint(KEYS, size=[SAMPLES, SLOTS, 1])[mine],
            model.pairs: random.randint(KEYS, size=[SAMPLES, SLOTS, 2])[mine]}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--horovod", action="store_true")
    parser.add_argument("--save")
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--slow", type=float, default=0.0)
    parser.add_argument("--pause", type=float, default=0.0)
    options = parser.parse_args()
    if options.horovod:
        import horovod.tensorflow as hvd
        hvd.init()
    model = Model()
    init, start = sok.Init(global_batch_size=SAMPLES), tf.compat.v1.global_variables_initializer()
    manager = sok.CheckpointManager(options.save) if options.save else None
    with tf.compat.v1.Session(config=tf.compat.v1.ConfigProto(intra_op_parallelism_threads=1)) as session:
        session.run(init)
        session.run(start)
        world = launch.current()
        losses = []

        def steps(first, end):
            for step in range(first, end):
                time.sleep(options.pause + options.slow * (world.rank == world.size - 1 and step == options.steps - 1))
                losses.append(session.run([model.loss, model.train], feed(model, step, world.rank, world.size))[0])
                if step == 1:
                    say("begun {}".format(world.rank))

        def state():
            return [digest(session.run(table)) for table in model.tables], digest(session.run(model.kernel))

        half = options.steps // 2
        if options.resume:
            assert manager.restore(session) == half
        else:
            steps(0, half)
        if manager and not options.resume:
            manager.save(session, half)
            say("saved {}".format(world.rank))
        steps(half, options.steps)
        tables, dense = state()
        if manager and not options.resume:
            assert manager.restore(session) == half
            steps(half, options.steps)
            assert state() == (tables, dense) and losses[half:options.steps] == losses[options.steps:]
        say(json.dumps({
            "rank": world.rank, "ranks": world.size, "local_rank": world.local_rank, "local_size": world.local_size,
            "host": os.uname().nodename, "threads": world.host_threads, "cpus": len(os.sched_getaffinity(0)),
            "peers": world.heartbeat.peers if world.heartbeat else None, "sent": world.communicator.bytes_sent,
            "horovod": [hvd.rank(), hvd.local_rank(), hvd.local_size()] if options.horovod else None,
            "tables": tables, "dense": dense, "losses": digest(losses[:options.steps]),
            "last": float(losses[-1])}))


if __name__ == "__main__":
    main()

"""Trains one table with each of our Adams on any number of ranks; each rank saves its shard, m and v after each part.

    mpiexec -np N python program_adam_steps.py FOLDER SEED

Key k is row k // N of rank k % N, so shards put together are the table. Gradients are sums of eighths: exact.
"""
import os
import sys

import numpy as np
import tensorflow.compat.v1 as tf

v1 = tf
KEYS, DIM, STEPS, BATCH = 24, 4, 60, 10
RATE = 0.05
OPTIMIZERS = ("lazy", "keras", "plugin")


def batch(seed, step):
    """Keys [B, 1, 2] and the gradients of their vectors, of all ranks; repeated keys, at times no sample at all."""
    random = np.random.RandomState([seed, step])
    samples = 0 if step % 9 == 4 else random.randint(1, BATCH)
    return (random.randint(0, KEYS - 5, [samples, 1, 2]),
            random.randint(-16, 16, [samples, 1, 2, DIM]).astype(np.float32) / 8)


def train(name, seed, rank, ranks):
    """Values of rows, m, v before the first step, after half of them, and at the end."""
    import sok1x as sok
    made = {"lazy": sok.tf.keras.optimizers.LazyAdamOptimizer, "keras": sok.tf.keras.optimizers.Adam,
            "plugin": sok.optimizers.Adam}[name]
    with tf.Graph().as_default():
        layer = sok.All2AllDenseEmbedding(KEYS // ranks, DIM, 1, 2, use_hashtable=False,
                                          embedding_initializer="normal")
        shard = layer.embedding_variable
        keys = v1.placeholder(tf.int64, [None, 1, 2])
        weights = v1.placeholder(tf.float32, [None, 1, 2, DIM])
        optimizer = made(RATE)
        loss = tf.reduce_sum(layer(keys) * weights)
        step = optimizer.apply_gradients(zip(tf.gradients(loss, [shard]), [shard]))
        state = [shard] + [optimizer.get_slot(shard, slot) for slot in ("m", "v")]
        values = []
        with v1.Session() as session:
            session.run(sok.Init(global_batch_size=BATCH, seed=5))
            first = [v1.global_variables_initializer()]
            session.run(first + ([optimizer.initializer] if name == "plugin" else []))
            for number in range(STEPS):
                if number in (0, STEPS // 2):
                    values.append(session.run(state))
                every, gradients = batch(seed, number)
                # All ranks have some; or the last one has them all.
                mine = (slice(rank, None, ranks) if number % 3 else
                        slice(0 if rank < ranks - 1 else None))
                session.run(step, {keys: every[mine], weights: gradients[mine]})
            values.append(session.run(state))
        return values


def main():
    from mpi4py import MPI
    rank, ranks = MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size
    results = {}
    for name in OPTIMIZERS:
        for part, values in enumerate(train(name, int(sys.argv[2]), rank, ranks)):
            results.update({"{}/{}/{}".format(name, part, what): value
                            for what, value in zip(("row", "m", "v"), values)})
    np.savez(os.path.join(sys.argv[1], "{}.npz".format(rank)), **results)


if __name__ == "__main__":
    v1.logging.set_verbosity(v1.logging.ERROR)
    main()

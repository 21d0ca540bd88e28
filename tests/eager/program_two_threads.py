"""Two threads, or two tf.functions, that look one table up, begun in another order on each rank: each has its own rows
and gradients.

    mpiexec -np 2 python program_two_threads.py
"""
import sys
import threading

import numpy as np
import tensorflow as tf
from mpi4py import MPI
from refusals import refused

tf.compat.v1.enable_v2_behavior()
import sok1x as sok  # noqa: E402
from sok1x import launch  # noqa: E402
from sok1x.core.frameworks import dense_gradients  # noqa: E402

tf.get_logger().setLevel("ERROR")
ROWS, DIM = 8, 2


def check_calls_of_one_function(size):
    """How many rows had left is that of a call's own gradient, though another thread calls before it is read."""
    table = sok.DynamicVariable(DIM, initializer="1", init_capacity=ROWS, max_capacity=ROWS, evict_strategy="lru")
    again, arrived, goes_on, found = dense_gradients.note_again, threading.Event(), threading.Event(), {}

    def block(keys):
        return 1.0 * sok.all2all_dense_embedding(table, keys)

    @tf.function
    def make(keys):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.recompute_grad(block)(keys))
        return tape.gradient(loss, table)

    def late(noted, gradient):
        if threading.current_thread().name == "first":
            arrived.set()
            goes_on.wait()
        again(noted, gradient)

    def call(first):
        found[first] = make(tf.range(first, first + 2 * size, dtype=tf.int64))

    call(0)
    dense_gradients.note_again = late
    threads = [threading.Thread(target=call, args=(0,), name="first"), threading.Thread(target=call, args=(5000,))]
    threads[0].start()
    arrived.wait()
    for first in (2000, 3000, 4000):
        sok.all2all_dense_embedding(table, tf.range(first, first + 4 * size, dtype=tf.int64))
    threads[1].start()
    threads[1].join(0.5)  # it waits for the first
    goes_on.set()
    for thread in threads:
        thread.join()
    dense_gradients.note_again = again
    refused(ValueError, "rows have left since it was made", lambda: tf.keras.optimizers.legacy.SGD(1.0).apply_gradients(
        [(found[0], table)]))


def main():
    sok.init()
    rank = launch.current().rank
    for in_functions in (False, True):
        table = sok.Variable(np.ones([ROWS, DIM], np.float32))
        optimizer = tf.keras.optimizers.legacy.SGD(1.0)

        def train(keys, table=table):
            return tf.reduce_sum(sok.all2all_dense_embedding(table, keys))

        def score(keys, table=table):
            return 5 * tf.reduce_sum(sok.all2all_dense_embedding(table, keys))

        if in_functions:
            train, score = tf.function(train), tf.function(score)
        found = {}

        def step(keys, train=train, table=table, optimizer=optimizer, found=found):
            with tf.GradientTape() as tape:
                loss = train(keys)
            found["train"] = tape.gradient(loss, table)
            optimizer.apply_gradients([(found["train"], table)])

        def look(keys, score=score, table=table, found=found):
            with tf.GradientTape() as tape:
                loss = score(keys)
            found["score"] = tape.gradient(loss, table)

        threads = {name: threading.Thread(target=target, args=(tf.constant(keys, tf.int64),), name=name + str(rank + 7))
                   for name, target, keys in (("train", step, [0, 1, 2 + rank]), ("score", look, [4, 5, 6 + rank]))}
        order = ["train", "score"][::1 if rank == 0 else -1]
        threads[order[0]].start()
        MPI.COMM_WORLD.Barrier()  # a rank that is late would find the other's second
        threads[order[0]].join(1.0)  # it waits for the other rank, whose first is another
        assert threads[order[0]].is_alive()
        MPI.COMM_WORLD.Barrier()
        threads[order[1]].start()
        for thread in threads.values():
            thread.join()
        totals = {name: float(tf.reduce_sum(one.values)) for name, one in found.items()}
        mine = {"train": [0, 1, 2, 3], "score": [4, 5, 6, 7]}
        for name, one in found.items():
            numbers = one.indices.numpy() * launch.current().size + rank
            assert set(numbers) <= set(mine[name]), (name, numbers)
        assert totals["train"] % DIM == 0 and totals["score"] % (5 * DIM) == 0, totals
        keys, rows = sok.export(table)
        expected = {0: -1, 1: -1, 2: 0, 3: 0}
        for key, row in zip(keys.numpy().tolist(), rows.numpy().tolist()):
            assert row == [expected.get(key, 1)] * DIM, (in_functions, key, row)
    check_calls_of_one_function(launch.current().size)
    sys.stdout.write("rank {} ok\n".format(rank))


if __name__ == "__main__":
    main()

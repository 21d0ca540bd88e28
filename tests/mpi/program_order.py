"""Eight independent layers whose inputs arrive in another order and at other times on every rank.

    mpiexec -np 4 python program_order.py STEPS SEED

Each layer's keys come out of a queue of its own, filled by a thread with random delays; the session has one inter-op
thread. With loss = sum(embeddings) and SGD, a row ends at its start minus the rate times how often its key was used.
"""
import sys
import threading
import time

import numpy as np
import tensorflow.compat.v1 as tf

import sok1x as sok

tf.logging.set_verbosity(tf.logging.ERROR)
LAYERS, VOCABULARY, DIM, RATE = 8, 40, 4, 0.01
SLOTS, KEYS = 2, 3


def batch(seed, step, layer, rank):
    random = np.random.RandomState([seed, step, layer, rank])
    return random.randint(-VOCABULARY // 2, VOCABULARY // 2, [random.randint(0, 5), SLOTS, KEYS]).astype(np.int64)


def to_sparse(keys):
    """The dense batch [B, S, H] as a SparseTensor [B * S, H] without missing keys."""
    rows = tf.shape(keys)[0] * SLOTS
    row, column = tf.meshgrid(tf.range(rows), tf.range(KEYS), indexing="ij")
    indices = tf.cast(tf.stack([tf.reshape(row, [-1]), tf.reshape(column, [-1])], 1), tf.int64)
    return tf.SparseTensor(indices, tf.reshape(keys, [-1]), tf.cast(tf.stack([rows, KEYS]), tf.int64))


def main():
    steps, seed = int(sys.argv[1]), int(sys.argv[2])
    init = sok.Init(global_batch_size=16)
    fed, enqueues, losses, layers = [], [], [], []
    for number in range(LAYERS):
        keys = tf.placeholder(tf.int64, [None, SLOTS, KEYS])
        queue = tf.FIFOQueue(4, [tf.int64])
        fed.append(keys)
        enqueues.append(queue.enqueue(keys))
        got = queue.dequeue()
        got.set_shape([None, SLOTS, KEYS])
        if number % 2:
            layer = sok.All2AllDenseEmbedding(VOCABULARY, DIM, SLOTS, KEYS)
            out = layer(got)
        else:
            exchange = ("all2all", "reduce_scatter")[number // 2 % 2]
            layer = sok.DistributedEmbedding("sum", VOCABULARY, DIM, SLOTS, KEYS, exchange=exchange)
            out = layer(to_sparse(got))
        layers.append(layer)
        losses.append(tf.reduce_sum(out))
    variables = [layer.embedding_variable for layer in layers]
    optimizer = tf.train.GradientDescentOptimizer(RATE)
    # One train op a layer, without any dependency between them: nothing orders the layers but the library.
    trains = [optimizer.apply_gradients([(tf.gradients(loss, variable)[0], variable)])
              for loss, variable in zip(losses, variables)]
    every = np.arange(-VOCABULARY // 2, VOCABULARY // 2 + 2).reshape(-1, SLOTS, KEYS).astype(np.int64)
    tables = [layer(tf.constant(every) if number % 2 else to_sparse(tf.constant(every)), training=False)
              for number, layer in enumerate(layers)]

    config = tf.ConfigProto(inter_op_parallelism_threads=1, intra_op_parallelism_threads=1)
    with tf.Session(config=config) as sess:
        sess.run(init)
        sess.run(tf.global_variables_initializer())
        from mpi4py import MPI
        rank, ranks = MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size
        before = sess.run(tables)
        delays = np.random.RandomState([seed, rank])

        def feed():
            for step in range(steps):
                for number in delays.permutation(LAYERS):
                    time.sleep(delays.choice([0, 0, 0, 0.0005, 0.002]))
                    sess.run(enqueues[number], {fed[number]: batch(seed, step, number, rank)})

        thread = threading.Thread(target=feed)
        thread.start()
        for _ in range(steps):
            sess.run(trains)
        thread.join()
        after = sess.run(tables)

    for number in range(LAYERS):
        used = np.zeros(VOCABULARY + 2)
        for step in range(steps):
            for other in range(ranks):
                np.add.at(used, batch(seed, step, number, other).ravel() + VOCABULARY // 2, 1)
        if number % 2:
            start, end = before[number].reshape(-1, DIM), after[number].reshape(-1, DIM)
            expected = start - RATE * used[:, None]
        else:
            start, end = before[number].reshape(-1, DIM), after[number].reshape(-1, DIM)
            expected = start - RATE * used.reshape(-1, KEYS).sum(1)[:, None]
        np.testing.assert_allclose(end, expected, rtol=1e-4, atol=1e-4, err_msg="layer {}".format(number))
    print("rank", rank, "ok")


if __name__ == "__main__":
    main()

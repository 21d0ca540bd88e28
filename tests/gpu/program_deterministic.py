"""Trains both layers for some steps and prints a digest of every variable, the index included, and of the losses."""
import hashlib

import numpy as np
import tensorflow.compat.v1 as tf

import sok1x as sok
from sok1x import launch
from sok1x.tf.keras.optimizers.lazy_adam import LazyAdamOptimizer

BATCH, SLOTS, DIM, ROWS = 2000, 6, 48, 1 << 15


def main():
    tf.logging.set_verbosity(tf.logging.ERROR)
    dense = sok.All2AllDenseEmbedding(ROWS, DIM, SLOTS, 1)
    sparse = sok.DistributedEmbedding("mean", ROWS, DIM, SLOTS, 5)
    keys, bags = tf.placeholder(tf.int64, [None, SLOTS, 1]), tf.sparse_placeholder(tf.int64)
    loss = tf.reduce_sum(tf.square(dense(keys, training=True) - 1.0)) + tf.reduce_sum(
        tf.square(sparse(bags, training=True) + 0.5))
    step = LazyAdamOptimizer(0.01).minimize(loss)
    with tf.Session() as session:
        session.run(sok.Init(global_batch_size=BATCH))
        session.run(tf.global_variables_initializer())
        random = np.random.RandomState(launch.current().rank)
        digest = hashlib.sha256()
        for _ in range(8):
            lengths = random.randint(0, 6, BATCH * SLOTS)
            rows = np.repeat(np.arange(BATCH * SLOTS), lengths)
            places = np.concatenate([np.arange(length) for length in lengths])
            # Hot keys have thousands of sources.
            values = (20000 * random.random_sample(len(rows)) ** 3).astype(np.int64)
            value, _ = session.run([loss, step], {
                keys: (20000 * random.random_sample([BATCH, SLOTS, 1]) ** 3).astype(np.int64) - 7,
                bags: tf.SparseTensorValue(np.stack([rows, places], 1), values, [BATCH * SLOTS, 5])})
        for variable in sorted(tf.global_variables(), key=lambda variable: variable.name):
            digest.update(session.run(variable).tobytes())
        # The loss itself is summed by TensorFlow, in whatever order it likes: it is not compared.
        assert np.isfinite(value)
    print("digest", launch.current().rank, digest.hexdigest())


if __name__ == "__main__":
    main()

"""What program_stock.py and program_stock_hooks.py train: a table with a hash index, one without, a dense variable.

Row k of the table is [10 k + n, ...] after n trainings, so no row is another rank's.
"""
import os
import sys

import numpy as np
import tensorflow.compat.v1 as tf

import sok1x as sok

KEYS, DIM = 20, 3


class Model:
    """A table with a hash index, one without, a dense variable; in a graph and session of its own."""

    def __init__(self, rank, ranks, start=True):
        self.graph = tf.Graph()
        with self.graph.as_default():
            self.number = tf.train.get_or_create_global_step()
            layers = [sok.All2AllDenseEmbedding(KEYS, DIM, 1, 1, embedding_initializer="zeros", use_hashtable=hashed)
                      for hashed in (True, False)]
            self.table = layers[0].embedding_variable
            self.weights = tf.get_variable("weights", [2], initializer=tf.zeros_initializer(), use_resource=True)
            mine = np.arange(KEYS)[rank::ranks].reshape(-1, 1, 1)
            first = tf.cast(tf.equal(self.number, 0), tf.float32)
            loss = sum(tf.reduce_sum(layer(mine, training=True)[:, 0, 0] * -(1 + first * (10 * mine[:, :, 0])))
                       for layer in layers)
            applied = tf.train.MomentumOptimizer(1.0, 0.0).minimize(loss, self.number, var_list=[
                layer.embedding_variable for layer in layers])
            with tf.control_dependencies([applied]):
                self.step = tf.group(self.weights.assign_add([1.0, 1.0]))
            every = np.arange(KEYS).reshape(-1, 1, 1)
            self.values = [layer(every, training=False)[:, 0, 0] for layer in layers] + [self.weights]
            self.start = sok.Init(global_batch_size=1)
            self.initialize = tf.global_variables_initializer()
        if start:
            self.session = tf.Session(graph=self.graph)
            self.session.run(self.start)
            self.session.run(self.initialize)

    def train(self, steps):
        for _ in range(steps):
            self.session.run(self.step)
        return self

    def check(self, trained, values=None):
        hashed, direct, weights = self.session.run(self.values) if values is None else values
        wanted = (np.arange(KEYS)[:, None] * 10 + trained) * (trained > 0) + np.zeros([1, DIM])
        np.testing.assert_array_equal(hashed, wanted)
        np.testing.assert_array_equal(direct, wanted)
        np.testing.assert_array_equal(weights, [trained] * 2)

    def saver(self, *arguments, **options):
        with self.graph.as_default():
            return tf.train.Saver(*arguments, **options)


def refused(kind, call, *words):
    """The call raises an error of the kind, which says the words."""
    try:
        call()
    except kind as error:
        text = str(getattr(error, "message", error))
        assert all(word in text for word in words), text
    else:
        raise AssertionError("{} was expected: {}".format(kind, words))


def main(cases):
    """Runs the cases that the command line names, functions (folder, rank, ranks); a `yield` waits for all ranks."""
    from mpi4py import MPI
    tf.logging.set_verbosity(tf.logging.ERROR)
    rank, ranks = MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size
    for case in sys.argv[2:]:
        for _ in cases[case](os.path.join(sys.argv[1], case), rank, ranks) or ():
            MPI.COMM_WORLD.Barrier()
        sys.stdout.write("rank {} did {}\n".format(rank, case))

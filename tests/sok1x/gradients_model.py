"""A model on two ranks beside the same on one with the whole batch, and what program_gradients.py checks with."""
import os

import numpy as np
import tensorflow.compat.v1 as tf
from mpi4py import MPI

import sok1x as sok
from sok1x.graph_ops.bridge import op_types

tf.logging.set_verbosity(tf.logging.ERROR)
RANK, RANKS = int(os.environ["OMPI_COMM_WORLD_RANK"]), int(os.environ["OMPI_COMM_WORLD_SIZE"])
KEYS, DIM, BATCH = 20, 3, 4


def check(condition, *what):
    if not condition:
        raise AssertionError(what)


def session():
    run = tf.Session()
    run.run(sok.Init(global_batch_size=RANKS * BATCH, seed=3))
    run.run(tf.global_variables_initializer())
    return run


def equal_on_all_ranks(values):
    """The bits of a list of arrays."""
    every = MPI.COMM_WORLD.allgather([np.asarray(value).tobytes() for value in values])
    check(all(other == every[0] for other in every), "replicas differ")


class Model:
    """A table that is looked up twice, and dense variables; `stock` is the same on one rank, with all ranks' batch."""

    def __init__(self):
        # Rows of 20 keys on every rank, whichever it owns.
        self.layer = sok.All2AllDenseEmbedding(KEYS, DIM, 1, 2, embedding_initializer="normal", use_hashtable=False)
        self.keys = tf.placeholder(tf.int64, [None, 1, 2])
        self.every = tf.placeholder(tf.int64, [None, 1, 2])
        start = np.random.RandomState(7).randn(DIM, 2).astype(np.float32)
        self.dense = [tf.get_variable("w", initializer=start, use_resource=True),
                      tf.get_variable("b", initializer=np.float32(0.5), use_resource=True)]
        self.stock_dense = [tf.get_variable("stock_w", initializer=start, use_resource=True),
                            tf.get_variable("stock_b", initializer=np.float32(0.5), use_resource=True)]
        self.stock_table = tf.get_variable("stock_table", [KEYS, DIM], use_resource=True)
        self.table = self.layer.embedding_variable
        self.variables = [self.table] + self.dense
        self.stock = [self.stock_table] + self.stock_dense
        self.loss = self._loss(self.layer, self.keys, self.dense)
        self.stock_loss = self._loss(lambda keys: tf.gather(self.stock_table, keys), self.every, self.stock_dense)
        self.rows = self.layer(tf.constant(np.arange(KEYS).reshape(-1, 1, 2)), training=False)

    @staticmethod
    def _loss(look, keys, dense):
        """A sum over samples, so that the ranks' losses add up to that of all."""
        vectors = tf.reduce_sum(look(keys), [1, 2]) * tf.reduce_sum(look((keys + 1) % KEYS), [1, 2])
        return tf.reduce_sum(tf.square(tf.matmul(vectors, dense[0]) + dense[1] - 1.0)) / (RANKS * BATCH)

    def stock_gradients(self):
        """Of the whole batch, dense: no row twice."""
        return [tf.convert_to_tensor(gradient) for gradient in tf.gradients(self.stock_loss, self.stock)]

    def start(self, run):
        self.stock_table.load(run.run(self.rows).reshape(KEYS, DIM), run)

    def feed(self, random):
        batches = [random.randint(0, KEYS, [BATCH, 1, 2]) for _ in range(RANKS)]
        return {self.keys: batches[RANK], self.every: np.concatenate(batches)}

    def compare(self, run, tolerance):
        ours, stock = run.run([self.rows, self.dense]), run.run([self.stock_table, self.stock_dense])
        np.testing.assert_allclose(ours[0].reshape(KEYS, DIM), stock[0], rtol=tolerance, atol=tolerance)
        for one, other in zip(ours[1], stock[1]):
            np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)


def exchanges():
    """How many ops of the graph add values up over the ranks."""
    return sum(op.type.startswith("HorovodAllreduce") or op_types.is_ours(op) and op.get_attr(
        "function") == b"operations.collectives.all_reduce" for op in tf.get_default_graph().get_operations())


def expect(error, words, make):
    try:
        make()
    except error as caught:
        for word in words:
            check(word in str(caught), word, str(caught))
    else:
        raise AssertionError("nothing was refused: {}".format(words))

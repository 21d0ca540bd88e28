"""Tables, batches and references that the programs about `sok.Variable` share."""
import numpy as np
import tensorflow.compat.v1 as tf
from mpi4py import MPI

import sok1x as sok

v1 = tf
v1.logging.set_verbosity(v1.logging.ERROR)
world = MPI.COMM_WORLD
N, RANK = world.size, world.rank

# (rows, D, mode, combiner, ids' dtype, ragged or sparse, weighted)
TABLES = [
    (7, 3, None, "sum", np.int64, "ragged", False),
    (8 * N, 4, "distributed", "mean", np.int32, "sparse", True),
    (1, 5, None, "mean", np.int64, "sparse", False),                       # fewer rows than ranks
    (100, 16, "localized:0", "sum", np.int32, "ragged", True),
    (9, 1, "localized:{}".format(N - 1), "mean", np.int64, "ragged", True),
    (33, 8, "distributed", "sum", np.int64, "unsorted", False),
    (12, 6, "localized:{}".format(N // 2), "mean", np.int64, "unsorted", True),
    (20, 4, None, "sqrtn", np.int64, "unsorted", True),
    (20, 5, "distributed", "sqrtn", np.int32, "ragged", False),
]


class Batch:
    """One rank's ids of one table: for each sample a list, and weights of the same form."""

    def __init__(self, random, rows, samples, plain=False):
        lengths = random.randint(0, 5, samples)
        self.ids = [random.randint(0, rows, length).tolist() for length in lengths]
        self.weights = [np.where(random.rand(length) < 0.2, 0.0, random.uniform(0.5, 2.0, length)
                                 * random.choice([-1.0, 1.0], length)).astype(np.float32).tolist()
                        for length in lengths]
        if plain:  # means of which no sum of weights is near zero
            self.weights = [[abs(weight) + 0.1 for weight in one] for one in self.weights]

    def flat(self, what):
        return [value for one in getattr(self, what) for value in one]


def joined(batches):
    """The batches of all ranks, rank 0's first."""
    made = Batch.__new__(Batch)
    made.ids = [one for batch in batches for one in batch.ids]
    made.weights = [one for batch in batches for one in batch.weights]
    return made


class Fed:
    """Placeholders of one table's ids and weights, and the ragged or sparse tensors made of them."""

    def __init__(self, dtype, form, weighted):
        self._dtype, self._form = dtype, form
        self.values = v1.placeholder(dtype, [None])
        self.weight_values = v1.placeholder(tf.float32, [None])
        self.weights = None
        if form == "ragged":
            self._where = v1.placeholder(tf.int64, [None])
            self.ids, weights = [tf.RaggedTensor.from_row_splits(values, self._where, validate=False)
                                 for values in (self.values, self.weight_values)]
        else:
            self._where, self._shape = v1.placeholder(tf.int64, [None, 2]), v1.placeholder(tf.int64, [2])
            self.ids, weights = [tf.SparseTensor(self._where, values, self._shape)
                                 for values in (self.values, self.weight_values)]
        if weighted:
            self.weights = weights

    def feeds(self, batch):
        lengths = [len(one) for one in batch.ids]
        values = np.array(batch.flat("ids"), self._dtype), np.array(batch.flat("weights"), np.float32)
        if self._form == "ragged":
            return {self._where: np.cumsum([0] + lengths), self.values: values[0], self.weight_values: values[1]}
        where = np.array([[sample, place] for sample, length in enumerate(lengths) for place in range(length)])
        where, order = where.reshape(-1, 2), np.arange(len(where))
        if self._form == "unsorted":
            order = np.random.RandomState(len(where)).permutation(len(where))
        return {self._where: where[order], self._shape: [len(lengths), 9], self.values: values[0][order],
                self.weight_values: values[1][order]}


class Reference:
    """tf.nn.embedding_lookup_sparse on a whole table in float64, with zeros for samples without ids.

    Attributes:
      out: where the model has no weights, with weights of one: for TensorFlow has no second gradient of the other way.
      stock: without weights where the model has none.
    """

    def __init__(self, table, combiner, weighted, dtype=tf.float64):
        self._weighted = weighted
        self.ids = v1.placeholder(tf.int64, [None])
        self.where, self.size = v1.placeholder(tf.int64, [None, 2]), v1.placeholder(tf.int64, [])
        self.weights = v1.placeholder(dtype, [None])
        shape = tf.stack([self.size, 9])
        weights = tf.SparseTensor(self.where, self.weights, shape)
        lengths = tf.math.unsorted_segment_sum(tf.ones_like(self.ids), self.where[:, 0], self.size)

        def made(weights):
            found = tf.nn.embedding_lookup_sparse(table, tf.SparseTensor(self.where, self.ids, shape), weights,
                                                  combiner=combiner)
            found = tf.pad(found, [[0, self.size - tf.shape(found, out_type=tf.int64)[0]], [0, 0]])
            return tf.where(tf.tile(lengths[:, None] > 0, [1, tf.shape(found)[1]]), found, tf.zeros_like(found))

        self.out = made(weights)
        self.stock = self.out if weighted else made(None)

    def feeds(self, batch):
        where = [[sample, place] for sample, one in enumerate(batch.ids) for place in range(len(one))]
        weights = batch.flat("weights")
        return {self.ids: batch.flat("ids"), self.where: np.array(where, np.int64).reshape(-1, 2),
                self.size: len(batch.ids), self.weights: weights if self._weighted else np.ones(len(weights))}


def rows_of(mode, whole, rank=RANK):
    """This rank's rows of a whole table."""
    if mode in (None, "distributed"):
        return whole[rank::N]
    return whole if mode == "localized:{}".format(rank) else whole[:0]


def variables(wholes):
    """The tables as sok.Variables."""
    return [sok.Variable(whole, mode=table[2], name="table_{}".format(number))
            for number, (whole, table) in enumerate(zip(wholes, TABLES))]

"""The same loss, with lookups inside branches and loops, of a table and of a stock variable fed the same batches."""
import numpy as np
import tensorflow.compat.v1 as tf
from sok1x_cases import dense_layer, sparse_layer

v1 = tf
ROWS, DIM, SLOTS, HOT = 24, 3, 2, 2
TURNS = 10  # of a loop at a time: ranks may come to their lookups and gradients in another order


def in_cond(look, flags, keys):
    return v1.cond(flags[0] > 0, lambda: look(keys) * 2.0, lambda: look.shape_of(keys) + 0.5)


def in_both(look, flags, keys):
    return v1.cond(flags[0] > 0, lambda: look(keys) * 2.0, lambda: look(keys + 1) * look(keys))


def in_nested(look, flags, keys):
    return v1.cond(flags[0] > 0,
                   lambda: v1.cond(flags[1] > 0, lambda: look(keys), lambda: look.shape_of(keys) + 3.0),
                   lambda: look.shape_of(keys) * 0.5)


def in_case(look, flags, keys):
    return v1.case([(flags[0] > 0, lambda: look(keys)), (flags[1] > 0, lambda: look(keys + 2) * 3.0)],
                   default=lambda: look.shape_of(keys))


def in_loop(look, flags, keys):
    _, total = v1.while_loop(lambda i, _: i < 2 + flags[0], lambda i, total: (i + 1, total + look(keys + i) * total),
                             [tf.constant(0, tf.int64), look.shape_of(keys) + 1.0], parallel_iterations=TURNS)
    return total


def in_cond_in_loop(look, flags, keys):
    def turn(i, total):
        return i + 1, v1.cond((i + flags[0]) % 2 > 0, lambda: total + look(keys + i), lambda: total * 1.5)
    return v1.while_loop(lambda i, _: i < 3, turn, [tf.constant(0, tf.int64), look.shape_of(keys) + 1.0],
                         parallel_iterations=TURNS)[1]


def beside(look, flags, keys):
    """In a branch, and out of it."""
    return look(keys) + v1.cond(flags[0] > 0, lambda: look(keys + 1) * 2.0, lambda: look.shape_of(keys))


WAYS = {function.__name__: function for function in (
    in_cond, in_both, in_nested, in_case, in_loop, in_cond_in_loop, beside)}


class Lookup:
    """keys [B, S, H] -> float32 [B, S, D]."""

    def __init__(self, look):
        self._look = look

    def __call__(self, keys):
        return self._look(keys % ROWS)

    @staticmethod
    def shape_of(keys):
        """Zeros of the lookup's shape."""
        return tf.zeros(tf.concat([tf.shape(keys)[:2], [DIM]], 0)) + tf.zeros([1, SLOTS, DIM])


class Twins:
    """A table and a stock variable; `start` gives them the same rows."""

    def __init__(self, way, dense=True):
        self.flags = v1.placeholder(tf.int64, [2])
        self.keys = v1.placeholder(tf.int64, [None, SLOTS, HOT])
        self.every = v1.placeholder(tf.int64, [None, SLOTS, HOT])  # of all ranks, for the stock variable
        arguments = dict(max_vocabulary_size_per_gpu=ROWS, embedding_vec_size=DIM, slot_num=SLOTS,
                         embedding_initializer="normal")
        if dense:
            self.layer = dense_layer(nnz_per_slot=HOT, **arguments)
            ours = Lookup(lambda keys: tf.reduce_sum(self.layer(keys), 2))
        else:
            self.layer = sparse_layer(max_nnz=HOT, **arguments)
            ours = Lookup(lambda keys: self.layer(bags_of(keys)))
        self.table = self.layer.embedding_variable
        self.stock = v1.get_variable("stock", [ROWS, DIM], use_resource=True)
        stock = Lookup(lambda keys: tf.reduce_sum(tf.gather(self.stock, keys), 2))
        self.our_loss = self._loss(way(ours, self.flags, self.keys))
        self.stock_loss = self._loss(way(stock, self.flags, self.every))
        numbers = tf.constant(np.arange(ROWS).reshape(-1, SLOTS, HOT))
        if dense:
            self.rows = tf.reshape(self.layer(numbers, training=False), [ROWS, DIM])
            self.insert = self.layer(numbers)
        else:
            alone = tf.SparseTensor(np.stack([np.arange(ROWS), np.zeros(ROWS)], 1).astype(np.int64),
                                    tf.range(ROWS, dtype=tf.int64), [ROWS, HOT])
            self.rows = tf.reshape(self.layer(alone, training=False), [ROWS, DIM])
            self.insert = self.layer(alone)

    @staticmethod
    def _loss(vectors):
        return tf.reduce_sum(tf.sigmoid(vectors)) + 0.1 * tf.reduce_sum(tf.exp(0.3 * vectors))

    def start(self, run):
        """The same rows, the keys 0, 1, … in the order of the table's rows."""
        run.run(self.insert)
        self.stock.load(run.run(self.rows), run)


def bags_of(keys):
    """keys [B, S, H] as a SparseTensor of B * S bags."""
    flat = tf.reshape(keys, [-1])
    count = tf.size(flat, out_type=tf.int64)
    places = tf.range(count)
    return tf.SparseTensor(tf.stack([places // HOT, places % HOT], 1), flat, tf.stack([count // HOT, HOT]))

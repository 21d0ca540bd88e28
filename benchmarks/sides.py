"""One embedding table and its training step, in sok1x and in stock TensorFlow, ready to be timed.

Both sides have the same batches in variables of the graph, rows of the same size and dtype, ones at first, and the same
optimizer: the same steps lead to the same losses, within what float sums in another order give.
The loss is half the squared distance of the embeddings from a fixed target: its gradient is one subtraction, so that
little but the embedding's own work is timed, and a step cannot do without its lookup.
"""
import contrib
import numpy as np
import tensorflow.compat.v1 as tf
from workload import MOST_KEYS

import sok1x as sok

OPTIMIZERS = {
    "sgd": lambda: tf.train.GradientDescentOptimizer(0.01),
    "lazyadam": lambda: contrib.lazy_adam(0.001),
}
_FILL_ROWS = 4096  # samples in a batch that fills the table


class Side:
    """A graph and a session. `run()` is what is timed; `select(batch)` puts another batch in place before it."""

    def __init__(self, layout, mode, options, config, ranks):
        self.layout, self.options, self.ranks = layout, options, ranks
        self.graph = tf.Graph()
        with self.graph.as_default():
            first = np.zeros([options["samples"], options["slots"], 1], np.int64)
            sparse = layout == "sparse"
            count = options["keys"][layout]
            self.keys = _variable("keys", np.zeros(count, np.int64) if sparse else first)
            if sparse:
                self.indices = _variable("indices", np.zeros([count, 2], np.int64))
                shape = tf.constant([options["samples"] * options["slots"], MOST_KEYS], tf.int64)
                inputs = tf.SparseTensor(self.indices.read_value(), self.keys.read_value(), shape)
            else:
                inputs = self.keys.read_value()
            embeddings = self.look_up(inputs)
            shape = [options["samples"], options["slots"], options["dim"]]
            self.embeddings = embeddings = tf.reshape(embeddings, shape)
            self.target = np.random.RandomState(7).normal(size=shape).astype(np.float32)
            if mode == "forward":
                step = tf.group(embeddings)
            else:
                target = _variable("target", self.target)
                step = self.train(embeddings, embeddings - target.read_value(), OPTIMIZERS[mode]())
            self.prepare()
            initialize = tf.global_variables_initializer()
        self.session = tf.Session(graph=self.graph, config=config)
        self.before_variables()
        self.session.run(initialize)
        self.fill()
        self.step_op = step
        self.run = self.session.make_callable(step)

    def select(self, batch):
        """Makes `batch` the one that the next steps use."""
        if self.layout == "sparse":
            self.keys.load(batch.keys, self.session)
            self.indices.load(batch.indices, self.session)
        else:
            self.keys.load(batch.keys.reshape(self.keys.shape.as_list()), self.session)

    def loss(self):
        """This rank's, of the batch in place."""
        return 0.5 * float(np.sum((self.session.run(self.embeddings) - self.target) ** 2, dtype=np.float64))

    def prepare(self):
        """Adds what is needed besides the step to the graph."""

    def before_variables(self):
        """Runs before variables are initialized."""

    def fill(self):
        """Makes all keys known."""

    def close(self):
        """Frees the tables."""
        self.session.close()


class Sok1x(Side):
    """`All2AllDenseEmbedding` or `DistributedEmbedding(combiner='sum')`, with a hash table that is exactly full.

    The optimizer is wrapped in `sok.DistributedOptimizer`, as our text advises and as Horovod's is in its own.
    """

    def look_up(self, inputs):
        common = dict(max_vocabulary_size_per_gpu=self.options["vocabulary"] // self.ranks,
                      embedding_vec_size=self.options["dim"], slot_num=self.options["slots"],
                      embedding_initializer="ones")
        if self.layout == "sparse":
            self.layer = sok.DistributedEmbedding(combiner="sum", max_nnz=MOST_KEYS,
                                                  exchange=self.options["exchange"], **common)
        else:
            self.layer = sok.All2AllDenseEmbedding(nnz_per_slot=1, **common)
        return self.layer(inputs, training=True)

    def train(self, embeddings, gradient, optimizer):
        variable = self.layer.embedding_variable
        gradients = tf.gradients(embeddings, [variable], grad_ys=[gradient])
        with sok.OptimizerScope([variable]):
            return sok.DistributedOptimizer(optimizer).apply_gradients(zip(gradients, [variable]))

    def prepare(self):
        self.init = sok.Init(global_batch_size=self.options["samples"] * self.ranks)
        self.new_keys = tf.placeholder(tf.int64, [None])
        if self.layout == "sparse":
            rows = tf.range(tf.size(self.new_keys, out_type=tf.int64))
            keys = tf.SparseTensor(tf.stack([rows, tf.zeros_like(rows)], axis=1), self.new_keys,
                                   tf.stack([tf.size(self.new_keys, out_type=tf.int64), MOST_KEYS]))
        else:
            keys = tf.reshape(self.new_keys, [-1, self.options["slots"], 1])
        self.insert = self.layer(keys, training=True).op
        self.rows_in_use = self.layer.embedding_variable.index[-1].read_value()

    def before_variables(self):
        self.session.run(self.init)

    def fill(self):
        """Inserts every key, in random order, so that rows lie as scattered as in a table without an index."""
        vocabulary, slots = self.options["vocabulary"], self.options["slots"]
        chunk = _FILL_ROWS * slots
        order = np.random.RandomState(3).permutation(vocabulary)
        for start in range(0, vocabulary, chunk):
            keys = order[start:start + chunk]
            keys = np.resize(keys, -(-len(keys) // slots) * slots)
            self.session.run(self.insert, {self.new_keys: keys})
        used = self.session.run(self.rows_in_use)
        assert used == vocabulary // self.ranks, "{} rows in use".format(used)


class Stock(Side):
    """`tf.nn.embedding_lookup` or `embedding_lookup_sparse(combiner='sum')` on a resource variable [V, D]."""

    def look_up(self, inputs):
        self.table = tf.get_variable(
            "table", [self.options["vocabulary"], self.options["dim"]], use_resource=True,
            initializer=tf.ones_initializer())
        if self.layout == "sparse":
            return tf.nn.embedding_lookup_sparse(self.table, inputs, None, combiner="sum")
        return tf.nn.embedding_lookup(self.table, inputs)

    def train(self, embeddings, gradient, optimizer):
        return optimizer.apply_gradients(optimizer.compute_gradients(
            embeddings, var_list=[self.table], grad_loss=gradient))


class Horovod(Stock):
    """Stock TensorFlow, the whole table on every rank, gradients added up, as a table's of ours are, by Horovod's
    `DistributedOptimizer`."""

    def train(self, embeddings, gradient, optimizer):
        import horovod.tensorflow as hvd
        return super().train(embeddings, gradient, hvd.DistributedOptimizer(optimizer, op=hvd.Sum))


SIDES = {"sok1x": Sok1x, "stock": Stock, "horovod": Horovod}


def _variable(name, value):
    return tf.get_variable(name, initializer=value, trainable=False, use_resource=True)

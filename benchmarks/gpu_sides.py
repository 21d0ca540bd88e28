"""One embedding table on a GPU in sok1x and in stock TensorFlow, with all that is timed as ops of one graph.

All batches lie in variables on the device; `select` makes another one the current one without a copy, so that no step
pays for its input. The loss is half the squared distance of the embeddings from a fixed target: its gradient is one
subtraction, the op `top` in the same size, so that little but the embedding's own work is timed and a step cannot do
without its lookup.
"""
import contrib
import numpy as np
import tensorflow.compat.v1 as tf
import whole_steps
from workload import MOST_KEYS

import sok1x as sok

RATE = 1e-6  # so small that no row grows, however often its key comes
_FILL_SAMPLES = 2 ** 15  # samples of a batch that fills the table


class Side:
    """A graph and a session.

    Args:
        layout: 'dense' or 'sparse'. batches: `workload.Batch`es of this rank. modes: which ops to make.
        options: samples, slots, dim, vocabulary (of all ranks), device (TensorFlow's name). config: of the session.

    Attributes:
        steps: the ops to time, by mode.
    """

    def __init__(self, layout, batches, modes, options, config, ranks=1):
        self.layout, self.options, self.ranks = layout, options, ranks
        self._batches, self._selects, self._loads = batches, [], []
        self.graph = tf.Graph()
        with self.graph.as_default(), tf.device(options.device_name):
            inputs = self._inputs()
            self.steps = self._make_steps(inputs, modes)
            self.prepare()
            initialize = tf.global_variables_initializer()
        self.session = tf.Session(graph=self.graph, config=config)
        self.before_variables()
        self.session.run(initialize)
        for variable, value in self._loads:
            variable.load(value, self.session)
        self.fill()

    def select(self, number):
        """Makes a batch the one that the next steps use."""
        self.session.run(self._selects[number])

    def run(self, mode):
        """What is timed."""
        self.session.run(self.steps[mode])

    def close(self):
        """Frees the tables."""
        self.session.close()

    def _inputs(self):
        shape = [self.options.samples, self.options.slots, 1]
        if self.layout == "dense":
            keys, = self._rotating([[batch.keys.reshape(shape)] for batch in self._batches], ["keys"])
            return keys
        keys, indices = self._rotating([[batch.keys, batch.indices] for batch in self._batches], ["keys", "indices"])
        with tf.device("/cpu:0"):
            dense_shape = tf.constant(self._batches[0].dense_shape)
        return tf.SparseTensor(indices, keys, dense_shape)

    def _rotating(self, values, names):
        """Tensors that `select` switches: values[number] are those of a batch."""
        current = [_variable(name, value) for name, value in zip(names, values[0])]
        for number, arrays in enumerate(values):
            kept = [_variable("{}_{}".format(name, number), value) for name, value in zip(names, arrays)]
            self._loads += zip(kept, arrays)
            # The variable's tensor becomes the other's: no copy.
            self._selects.append(tf.group(*[to.assign(of.read_value(), read_value=False)
                                            for to, of in zip(current, kept)]))
        return [variable.read_value() for variable in current]

    def _make_steps(self, inputs, modes):
        options = self.options
        shape = [options.samples, options.slots, options.dim]
        target = _noise("target", shape, 7)
        steps = {}
        if "top" in modes:
            steps["top"] = tf.group(_noise("stand_in", shape, 8).read_value() - target.read_value())
        trained = self.look_up(inputs, True)
        if "forward" in modes:
            steps["forward"] = tf.group(self.look_up(inputs, False))
        if "forward training" in modes:
            steps["forward training"] = tf.group(trained)
        embeddings = tf.reshape(trained, shape)
        for mode in ("sgd", "lazyadam"):
            if mode in modes:
                steps[mode] = self.train(embeddings, embeddings - target.read_value(), mode)
        return steps

    def look_up(self, inputs, training):
        raise NotImplementedError

    def train(self, embeddings, gradient, mode):
        raise NotImplementedError

    def prepare(self):
        """Adds what is needed besides the steps to the graph."""

    def before_variables(self):
        """Runs before variables are initialized."""

    def fill(self):
        """Makes all keys known."""


class Sok1x(Side):
    """`All2AllDenseEmbedding` or `DistributedEmbedding(combiner='sum')`, its hash table exactly full."""

    layer = None

    def look_up(self, inputs, training):
        if self.layer is None:
            options = self.options
            common = dict(max_vocabulary_size_per_gpu=options.vocabulary // self.ranks, embedding_vec_size=options.dim,
                          slot_num=options.slots)
            exchange = getattr(options, "exchange", "auto")
            self.layer = (sok.DistributedEmbedding(combiner="sum", max_nnz=MOST_KEYS, exchange=exchange, **common)
                          if self.layout == "sparse" else sok.All2AllDenseEmbedding(nnz_per_slot=1, **common))
        return self.layer(inputs, training=training)

    def train(self, embeddings, gradient, mode):
        optimizer = (sok.DistributedOptimizer(tf.train.GradientDescentOptimizer(RATE)) if mode == "sgd"
                     else sok.tf.keras.optimizers.LazyAdamOptimizer(RATE))
        variable = self.layer.embedding_variable
        gradients = tf.gradients(embeddings, [variable], grad_ys=[gradient])
        with sok.OptimizerScope([variable]):
            return optimizer.apply_gradients(zip(gradients, [variable]))

    def prepare(self):
        options = self.options
        self._init = sok.Init(global_batch_size=options.samples * self.ranks)
        self._new_keys = tf.placeholder(tf.int64, [None])
        self._new_indices = tf.placeholder(tf.int64, [None, 2])
        if self.layout == "sparse":
            with tf.device("/cpu:0"):
                shape = tf.placeholder(tf.int64, [2])
            keys = tf.SparseTensor(self._new_indices, self._new_keys, shape)
            self._new_shape = shape
        else:
            keys = tf.reshape(self._new_keys, [-1, options.slots, 1])
        self._insert = self.layer(keys, training=True).op
        self._rows_in_use = self.layer.embedding_variable.index[-1].read_value()

    def before_variables(self):
        self.session.run(self._init)

    def fill(self):
        """Inserts every key by lookups that train, big batches in random order: rows lie scattered."""
        options, slots = self.options, self.options.slots
        mine = np.random.RandomState(3).permutation(options.vocabulary)
        mine = mine[len(mine) * self._rank() // self.ranks:len(mine) * (self._rank() + 1) // self.ranks]
        chunk = _FILL_SAMPLES * slots
        for start in range(0, len(mine), chunk):
            keys = mine[start:start + chunk]
            keys = np.resize(keys, -(-len(keys) // slots) * slots)
            feed = {self._new_keys: keys}
            if self.layout == "sparse":
                bags = np.arange(len(keys))
                feed.update({self._new_indices: np.stack([bags, np.zeros_like(bags)], axis=1),
                             self._new_shape: [len(keys), MOST_KEYS]})
            self.session.run(self._insert, feed)
        used = self.session.run(self._rows_in_use)
        if used != options.vocabulary // self.ranks:
            raise RuntimeError("{} rows are in use, expected {}".format(used, options.vocabulary // self.ranks))

    @staticmethod
    def _rank():
        from sok1x import launch
        return launch.current().rank


class Stock(Side):
    """`tf.nn.embedding_lookup` or `embedding_lookup_sparse(combiner='sum')` on a resource variable [V, D]."""

    table = None

    def look_up(self, inputs, training):
        if self.table is None:
            self.table = tf.get_variable(
                "table", [self.options.vocabulary, self.options.dim], use_resource=True,
                initializer=tf.random_uniform_initializer(-0.05, 0.05))
        if self.layout == "sparse":
            return tf.nn.embedding_lookup_sparse(self.table, inputs, None, combiner="sum")
        return tf.nn.embedding_lookup(self.table, inputs)

    def train(self, embeddings, gradient, mode):
        if mode == "sgd":
            optimizer = tf.train.GradientDescentOptimizer(RATE)
        else:
            optimizer = contrib.lazy_adam(RATE)
        return optimizer.apply_gradients(optimizer.compute_gradients(
            embeddings, var_list=[self.table], grad_loss=gradient))


def session_config():
    """Memory is taken as it is needed; what has no GPU form runs on the CPU, as stock TensorFlow's users have it."""
    config = whole_steps.config(allow_soft_placement=True)
    config.gpu_options.allow_growth = True
    return config


def _variable(name, value):
    """A variable of the value's shape and type; it gets the value later: a constant in the graph would be large."""
    return tf.get_variable(name, value.shape, tf.as_dtype(value.dtype), initializer=tf.zeros_initializer(),
                           trainable=False, use_resource=True)


def _noise(name, shape, seed):
    return tf.get_variable(name, shape, tf.float32, initializer=tf.random_normal_initializer(seed=seed),
                           trainable=False, use_resource=True)

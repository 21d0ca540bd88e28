"""Many tables with SOK 2.x's names, and what it is compared with: the layers, stock TensorFlow, Horovod.

lookup_sparse   one `sok.lookup_sparse` of all `sok.Variable`s; `sok.SGD`, or Adam, LazyAdam in a `sok.OptimizerWrapper`
layers          a layer for each table, without a hash table, so that both have the same rows in the same places:
                `All2AllDenseEmbedding` for one id a sample, `DistributedEmbedding` for 1 to 9
stock, horovod  `tf.nn.embedding_lookup_sparse` for each table; with Horovod the whole tables on every rank

All add the rows of a sample, have the same ids, start from rows of ones, and take the same steps: their losses agree.
"""
import time

import contrib
import model_sides
import numpy as np
import tensorflow.compat.v1 as tf
import workload

import sok1x as sok

LAYOUTS = {"one": "dense", "several": "sparse"}  # ids of a sample -> what workload.py calls it


# Optimizers by the names of their steps.
OURS = {"sgd": tf.train.GradientDescentOptimizer, "adam": tf.train.AdamOptimizer,
        "lazyadam": lambda rate: sok.tf.keras.optimizers.LazyAdamOptimizer(rate)}
STOCK = dict(OURS, lazyadam=contrib.lazy_adam)


class Batch:
    """A rank's ids. `keys` int64 [T, K], `indices` int64 [T, K, 2], of SparseTensors [B, 1 or 9]."""

    def __init__(self, options, rank, number):
        made = [workload.Batch(LAYOUTS[options.ids], options.samples, 1, options.vocabulary,
                               [options.seed, rank, number, table]) for table in range(len(options.dims))]
        self.keys = np.stack([each.keys for each in made])
        self.indices = np.stack([each.indices for each in made])


class Side(model_sides.Side):
    """A graph with a step for each mode, which has lookups of its own: 'forward', or an optimizer's name.

    Args:
        options: as of `model_sides.Side`; besides ids ('one', 'several'), ids_form ('sparse', 'ragged'), and modes.

    Attributes:
        evaluated: the loss of the batch, on this rank: float [].
    """

    def make_inputs(self):
        """A tf.SparseTensor for each table; `ragged` has the same ids, and so has `dense`, int64 [B, 1, 1]."""
        options = self.options
        tables, several = len(options.dims), options.ids == "several"
        count = int((np.arange(options.samples) % workload.MOST_KEYS + 1).sum()) if several else options.samples
        of = [(model_sides.input_variable("ids_{}".format(table), [count], tf.int64),
               model_sides.input_variable("indices_{}".format(table), [count, 2], tf.int64),
               model_sides.input_variable("splits_{}".format(table), [options.samples + 1], tf.int64))
              for table in range(tables)]
        with tf.device("/cpu:0"):
            self._fed = [tf.placeholder(tf.int64, [tables] + each.shape.as_list()) for each in of[0]]
            values = zip(*[tf.unstack(each) for each in self._fed])
        self._current = [variable for variables in of for variable in variables]
        self._select = tf.group(*[variable.assign(value, read_value=False) for variable, value in zip(
            self._current, [one for given in values for one in given])])
        with tf.device("/cpu:0"):
            shape = tf.constant([options.samples, workload.MOST_KEYS if several else 1], tf.int64)
        self.ragged = [tf.RaggedTensor.from_row_splits(ids.read_value(), splits.read_value(), validate=False)
                       for ids, _, splits in of]
        self.dense = [] if several else [tf.reshape(ids.read_value(), [-1, 1, 1]) for ids, _, _ in of]
        return [tf.SparseTensor(indices.read_value(), ids.read_value(), shape) for ids, indices, _ in of]

    def feed(self, batch):
        splits = [np.searchsorted(indices[:, 0], np.arange(self.options.samples + 1)) for indices in batch.indices]
        self.session.run(self._select, dict(zip(self._fed, [batch.keys, batch.indices, splits])))

    def make_steps(self, keys):
        began = time.perf_counter()
        self.make_tables()
        self.steps, rows = {}, None
        for mode in self.options.modes:
            rows = self.look_up(keys, mode != "forward")
            self.steps[mode] = tf.group(*rows) if mode == "forward" else self.apply(self.model.loss(rows), mode)
        self.seconds["graph"] = time.perf_counter() - began
        self.evaluated = self.model.loss(self.look_up(keys, False))
        return rows

    def begin(self, batch):
        """Takes a step of each mode."""
        self.select(batch)
        for mode in self.options.modes:
            self.ranks.barrier()
            began = time.perf_counter()
            self.run(mode)
            self.seconds["first " + mode] = time.perf_counter() - began

    def apply(self, loss, name):
        """A step of the optimizer of this name."""
        raise NotImplementedError


class LookupSparse(Side):
    """SOK 2.x's names alone."""

    def make_tables(self):
        sok.init()
        self.tables = [sok.Variable(shape=[self.options.vocabulary, dim], initializer="ones",
                                    name="table_{}".format(number)) for number, dim in enumerate(self.options.dims)]

    def look_up(self, keys, training):
        return sok.lookup_sparse(self.tables, self.ragged if self.options.ids_form == "ragged" else keys,
                                 combiners=["sum"] * len(self.tables))

    def apply(self, loss, name):
        rate = self.model.rate
        optimizer = sok.SGD(rate) if name == "sgd" else sok.OptimizerWrapper(OURS[name](rate))
        return optimizer.apply_gradients(zip(tf.gradients(loss, self.tables), self.tables))


class Layers(Side):
    """Layers, with the optimizer in a `sok.DistributedOptimizer`."""

    def make_tables(self):
        self.layers = [self._layer(dim) for dim in self.options.dims]

    def _layer(self, dim):
        common = dict(max_vocabulary_size_per_gpu=-(-self.options.vocabulary // self.ranks.size), slot_num=1,
                      embedding_vec_size=dim, use_hashtable=False, embedding_initializer="ones")
        if self.options.ids == "one":
            return sok.All2AllDenseEmbedding(nnz_per_slot=1, **common)
        return sok.DistributedEmbedding(combiner="sum", max_nnz=workload.MOST_KEYS, **common)

    def look_up(self, keys, training):
        return [layer(each, training=training) for layer, each in zip(self.layers, self.dense or keys)]

    def apply(self, loss, name):
        variables = [layer.embedding_variable for layer in self.layers]
        optimizer = sok.DistributedOptimizer(OURS[name](self.model.rate), average=False)
        with sok.OptimizerScope(variables):
            return optimizer.apply_gradients(optimizer.compute_gradients(loss, var_list=variables))

    def prepare(self, embeddings):
        self._init = sok.Init(global_batch_size=self.options.samples * self.ranks.size)

    def before_variables(self):
        self.session.run(self._init)


class Stock(Side):
    """`tf.nn.embedding_lookup_sparse` on resource variables [V, D]."""

    def make_tables(self):
        self.tables = [tf.get_variable("table_{}".format(number), [self.options.vocabulary, dim], use_resource=True,
                                       initializer=tf.ones_initializer())
                       for number, dim in enumerate(self.options.dims)]

    def look_up(self, keys, training):
        return [tf.nn.embedding_lookup_sparse(table, each, None, combiner="sum")
                for table, each in zip(self.tables, keys)]

    def apply(self, loss, name):
        return self.optimizer(name).minimize(loss, var_list=self.tables)

    def optimizer(self, name):
        return STOCK[name](self.model.rate)


class Horovod(Stock):
    """Gradients are exchanged by `hvd.DistributedOptimizer`, and added up, as the losses of the ranks are."""

    def optimizer(self, name):
        import horovod.tensorflow as hvd
        return hvd.DistributedOptimizer(super().optimizer(name), op=hvd.Sum)


SIDES = {"lookup_sparse": LookupSparse, "layers": Layers, "stock": Stock, "horovod": Horovod}


def losses(sides, batch, ranks):
    """Each side's loss of a batch, of all ranks together."""
    found = {}
    for name, side in sides.items():
        side.select(batch)
        ranks.barrier()
        found[name] = float(np.sum(ranks.gather(side.session.run(side.evaluated)), dtype=np.float64))
    return found

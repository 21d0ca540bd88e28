"""A model on embedding tables of its own in sok1x, in stock TensorFlow and with Horovod, ready to be timed.

All sides have the same batches, in variables on the device: no step pays for its input. Their tables have the same
sizes, and all train by gradient descent.
"""
import collections
import time

import gpu_device
import numpy as np
import tensorflow.compat.v1 as tf
import whole_steps
from workload import power_law_keys

import sok1x as sok
from sok1x import launch

# keys: int64 [T, B, S, 1], of T tables; features: arrays for the model's `inputs`.
Batch = collections.namedtuple("Batch", "keys features")


class Model:
    """What is done with rows; here: next to nothing, half the sum of their squares is the loss."""

    inputs = ()  # the variables that a batch's features go to
    rate = 1e-4  # of gradient descent; so small that no row grows, however often its key comes

    def make_inputs(self):
        """Makes `inputs`."""

    def outputs(self, embeddings):
        """What evaluation fetches, given rows: a list of float [B, S, 1, D], a table each; a tensor or an op.

        An op waits for the rows only: TensorFlow leaves out what has no effect and no reader, which a lookup has.
        """
        return tf.group(*embeddings)

    def loss(self, embeddings):
        """This rank's part of the loss, which adds up over the ranks: float []."""
        return tf.add_n([tf.nn.l2_loss(rows) for rows in embeddings])


class Joined(Model):
    """As `Model`, of rows that lie side by side, as models have them that give them to dense layers."""

    def loss(self, embeddings):
        """See `Model.loss`."""
        return tf.nn.l2_loss(tf.concat(embeddings, axis=-1))


LOSSES = {"each": Model, "joined": Joined}


class Side:
    """A graph and a session.

    Args:
        model: a `Model`. options: dims (a table each), slots, samples, vocabulary (keys of a table, of all ranks),
            device_name (TensorFlow's), modes. config: of the session. ranks: a `measure.Ranks`.

    Attributes:
        steps: what to fetch: 'forward' (evaluation), 'step' (training), where asked for 'top' (a step without tables).
        seconds: what came before the steps: 'graph' (to build what trains), 'initialize', and 'first step'.
        loss: the training loss, float []. evaluated: the same of evaluation, which leaves all tables as they are.
    """

    def __init__(self, model, options, config, ranks):
        self.model, self.options, self.ranks = model, options, ranks
        self.graph, self.seconds, self._kept = tf.Graph(), {}, {}
        with self.graph.as_default(), tf.device(options.device_name):
            tf.set_random_seed(options.seed)
            self.prepare(self.make_steps(self.make_inputs()))
            initialize = tf.group(tf.global_variables_initializer(), tf.local_variables_initializer())
        self.session = tf.Session(graph=self.graph, config=config)
        began = time.perf_counter()
        self.before_variables()
        self.session.run(initialize)
        self.after_variables()
        self.seconds["initialize"] = time.perf_counter() - began

    def begin(self, batch):
        """Takes the first step; then makes all keys known."""
        self.select(batch)
        self.ranks.barrier()
        began = time.perf_counter()
        self.run("step")
        self.seconds["first step"] = time.perf_counter() - began
        self.fill(batch)

    def select(self, batch):
        """Makes `batch` the one that the next steps use. From the second time on it is a run without a copy, so that a
        step that is timed comes as soon after it as steps of a model come after each other."""
        if id(batch) in self._kept:
            self.session.run(self._kept[id(batch)][0])
            return
        self.feed(batch)
        with self.graph.as_default(), tf.device(self.options.device_name):
            kept = [tf.Variable(current.read_value(), trainable=False, collections=[], use_resource=True)
                    for current in self._current]
            self.session.run([variable.initializer for variable in kept])
            # The variable's tensor becomes the other's.
            again = tf.group(*[current.assign(variable.read_value(), read_value=False)
                               for current, variable in zip(self._current, kept)])
        self._kept[id(batch)] = again, batch

    def feed(self, batch):
        """Copies a batch to where the steps find it."""
        self.session.run(self._select, dict(zip(self._fed, [batch.keys] + list(batch.features))))

    def run(self, name):
        """Runs one of the steps."""
        self.session.run(self.steps[name])

    def close(self):
        """Frees the tables."""
        self.session.close()

    def make_inputs(self):
        """Makes the variables for what a batch brings; returns the keys, int64 [B, S, 1], a table each."""
        options = self.options
        shape = [options.samples, options.slots, 1]
        keys = [input_variable("keys_{}".format(table), shape, tf.int64) for table in range(len(options.dims))]
        self.model.make_inputs()
        with tf.device("/cpu:0"):
            self._fed = [tf.placeholder(tf.int64, [len(keys)] + shape)]
            self._fed += [tf.placeholder(of.dtype.base_dtype, of.shape) for of in self.model.inputs]
            values = tf.unstack(self._fed[0]) + self._fed[1:]
        self._current = keys + list(self.model.inputs)
        self._select = tf.group(*[variable.assign(value, read_value=False)
                                  for variable, value in zip(self._current, values)])
        return [variable.read_value() for variable in keys]

    def make_steps(self, keys):
        """Makes tables, `steps`, `loss` and `evaluated`; returns the rows that training looks up."""
        began = time.perf_counter()
        self.make_tables()
        embeddings = self.look_up(keys, True)
        self.loss = self.model.loss(embeddings)
        self.steps = {"step": self.train(embeddings)}
        self.seconds["graph"] = time.perf_counter() - began
        evaluated = self.look_up(keys, False)
        self.steps["forward"] = self.model.outputs(evaluated)
        self.evaluated = self.model.loss(evaluated)
        if "top" in getattr(self.options, "modes", ()):
            self.steps["top"] = self._top(embeddings)
        return embeddings

    def _top(self, embeddings):
        """A step's loss and its gradients, of rows that need no lookup: what no table's work can make shorter."""
        rows = [input_variable("stand_in_{}".format(table), each.shape, each.dtype).read_value()
                for table, each in enumerate(embeddings)]
        return tf.group(*tf.gradients(self.model.loss(rows), rows))

    def make_tables(self):
        raise NotImplementedError

    def look_up(self, keys, training):
        """Rows of keys, int64 [B, S, 1], a table each: float [B, S, 1, D]."""
        raise NotImplementedError

    def train(self, embeddings):
        """The op that trains tables and dense variables."""
        raise NotImplementedError

    def prepare(self, embeddings):
        """Adds what is needed besides the steps to the graph."""

    def before_variables(self):
        """Runs before variables are initialized."""

    def after_variables(self):
        """Runs when variables are initialized."""

    def fill(self, batch):
        """Makes all keys known."""


class OnRanks(Side):
    """What any model needs that trains with sok1x, with tables or without."""

    def optimizer(self):
        """Gradients add up over the ranks, as the parts of the loss do."""
        return sok.DistributedOptimizer(tf.train.GradientDescentOptimizer(self.model.rate), average=False)

    def prepare(self, embeddings):
        self._init = sok.Init(global_batch_size=self.options.samples * self.ranks.size)
        self._broadcast = sok.broadcast_global_variables(0) if self.dense_variables() else tf.no_op()

    def dense_variables(self):
        """The variables that every rank has."""
        return sok.split_embedding_variable_from_others(tf.trainable_variables())[1]

    def before_variables(self):
        self.session.run(self._init)

    def after_variables(self):
        self.session.run(self._broadcast)


class Sok1x(OnRanks):
    """`All2AllDenseEmbedding`s with hash tables that are exactly full."""

    def make_tables(self):
        rows = -(-self.options.vocabulary // self.ranks.size)
        self.layers = [sok.All2AllDenseEmbedding(
            max_vocabulary_size_per_gpu=rows, embedding_vec_size=dim, slot_num=self.options.slots, nnz_per_slot=1)
            for dim in self.options.dims]

    def look_up(self, keys, training):
        return [layer(each, training=training) for layer, each in zip(self.layers, keys)]

    def train(self, embeddings):
        optimizer = self.optimizer()
        with sok.OptimizerScope([layer.embedding_variable for layer in self.layers]):
            return optimizer.apply_gradients(optimizer.compute_gradients(self.loss))

    def prepare(self, embeddings):
        super().prepare(embeddings)
        self.steps["insert"] = tf.group(*embeddings)
        self._in_use = [layer.embedding_variable.index[-1].read_value() for layer in self.layers]

    def fill(self, batch):
        """By lookups that train, of all keys in random order: rows lie scattered."""
        vocabulary, ranks = self.options.vocabulary, self.ranks
        mine = np.array_split(np.random.RandomState(3).permutation(vocabulary), ranks.size)[ranks.rank]
        most = max(ranks.gather(len(mine)))  # a rank with fewer keys asks for some again
        shape = batch.keys.shape
        for start in range(0, most, shape[1] * shape[2]):
            keys = np.resize(mine[start:] if start < len(mine) else mine, shape[1:])
            self.select(batch._replace(keys=np.broadcast_to(keys, shape)))
            self.run("insert")
        expected = len(range(ranks.rank, vocabulary, ranks.size))
        used = set(self.session.run(self._in_use))
        if used != {expected}:
            raise RuntimeError("{} rows are in use, expected {}".format(used, expected))


class Stock(Side):
    """`tf.nn.embedding_lookup` on resource variables [V, D]."""

    def make_tables(self):
        self.tables = [tf.get_variable(
            "table_{}".format(number), [self.options.vocabulary, dim], use_resource=True,
            initializer=tf.random_uniform_initializer(-0.05, 0.05)) for number, dim in enumerate(self.options.dims)]

    def look_up(self, keys, training):
        return [tf.nn.embedding_lookup(table, each) for table, each in zip(self.tables, keys)]

    def train(self, embeddings):
        return self.optimizer().minimize(self.loss)

    def optimizer(self):
        return tf.train.GradientDescentOptimizer(self.model.rate)


class Horovod(Stock):
    """Stock TensorFlow, the whole tables on every rank, gradients exchanged by `hvd.DistributedOptimizer`."""

    def optimizer(self):
        import horovod.tensorflow as hvd
        return hvd.DistributedOptimizer(super().optimizer())


class Mode:
    """One step of a side, as `measure.time_steps` takes it."""

    def __init__(self, side, name):
        self.select = side.select
        self.run = lambda: side.run(name)


def table_keys(random, options):
    """A batch's keys, int64 [T, B, S, 1]: each table's by the power law of workload.py."""
    shape = [len(options.dims), options.samples, options.slots, 1]
    return power_law_keys(random, int(np.prod(shape)), options.vocabulary).reshape(shape)


def session_config(threads):
    """Memory is taken as it is needed. threads: of this rank's ops; 0: TensorFlow's own numbers."""
    config = whole_steps.config(allow_soft_placement=True)
    config.gpu_options.allow_growth = True
    if threads:
        config.intra_op_parallelism_threads, config.inter_op_parallelism_threads = threads, 2
    return config


def input_variable(name, shape, dtype):
    """A variable for what a batch brings; this rank's alone."""
    return tf.get_variable(name, shape, dtype, initializer=tf.zeros_initializer(), trainable=False, use_resource=True,
                           collections=[tf.GraphKeys.LOCAL_VARIABLES])


def describe(options):
    """What a job ran on: the ranks as sok1x joined them, and the GPU."""
    world = launch.current()  # None where no side is sok1x's
    return {"about": {"world": world.description, "kernel threads": world.host_threads} if world else {},
            "gpu": gpu_device.get("gpu").describe() if options.gpus else None}

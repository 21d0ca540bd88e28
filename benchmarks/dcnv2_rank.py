"""One rank of dcnv2.py: [mpiexec -np N] python benchmarks/dcnv2_rank.py OPTIONS.json RESULT.json"""
import collections
import os
import sys

import jobs
import model_sides
import numpy as np
import tensorflow.compat.v1 as tf
from measure import Ranks, answer, asked, time_steps
from workload import power_law_keys

import sok1x as sok

# The example's file has the name of the benchmark's.
EXAMPLES = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "legacy_examples")
sys.path.insert(0, EXAMPLES)
import criteo  # noqa: E402
import dcnv2  # noqa: E402

RATE = 0.01
Batch = collections.namedtuple("Batch", "strings numbers labels")


class Side:
    """A graph and a session; `steps` has what to run."""

    def __init__(self, options, config, ranks):
        self.options, self.ranks, self.graph = options, ranks, tf.Graph()
        with self.graph.as_default():
            tf.set_random_seed(options.seed)
            features, labels = self._inputs()
            with tf.device(options.device_name):
                embeddings = self.embeddings(features)
                logits = dcnv2.dcnv2(embeddings, features, options)
                entropy = tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)
                self._loss = tf.reduce_sum(entropy) / (options.batch_size * ranks.size)
                step = self.optimizer(tf.train.AdagradOptimizer(RATE)).minimize(self._loss)
            self.steps = {"step": step, "insert": tf.group(embeddings)}
            begin = self.begin()
            initialize = [tf.global_variables_initializer(), tf.local_variables_initializer()]
        self.session = tf.Session(graph=self.graph, config=config)
        self.session.run(initialize)
        self.session.run(begin)

    def _inputs(self):
        """Features and labels out of variables in host memory, where strings are."""
        size = self.options.batch_size
        with tf.device("/cpu:0"):
            shapes = Batch([len(criteo.STRINGS), size], [len(criteo.NUMBERS), size], [size])
            kept = [model_sides.input_variable(name, shape, tf.string if name == "strings" else tf.float32)
                    for name, shape in shapes._asdict().items()]
            self._fed = [tf.placeholder(one.dtype.base_dtype, one.shape) for one in kept]
            self._select = tf.group(*[one.assign(value, read_value=False) for one, value in zip(kept, self._fed)])
            strings, numbers, labels = [one.read_value() for one in kept]
            features = dict(zip(criteo.STRINGS, tf.unstack(strings)))
            features.update(zip(criteo.NUMBERS, tf.unstack(numbers)))
        return features, labels

    def embeddings(self, features):
        """float32 [B, 2176]."""
        raise NotImplementedError

    def optimizer(self, optimizer):
        """What trains: gradients add up over the ranks, as the parts of the loss do."""
        return optimizer

    def begin(self):
        """What to run when variables are initialized."""
        return tf.no_op()

    def select(self, batch):
        """Makes `batch` the one that the next steps use."""
        self.session.run(self._select, dict(zip(self._fed, batch)))

    def run(self, name):
        """Runs one of the steps."""
        self.session.run(self.steps[name])

    def loss(self):
        """Of all ranks' batches."""
        return float(np.sum(self.ranks.gather(self.session.run(self._loss))))


class Group(Side):
    """As the example without feature columns."""

    def embeddings(self, features):
        return dcnv2.looked_up(features)

    def optimizer(self, optimizer):
        return sok.DistributedOptimizer(optimizer, average=False)

    def begin(self):
        return sok.broadcast_global_variables(0)


class Columns(Group):
    """As the example with feature columns."""

    def embeddings(self, features):
        return tf.feature_column.input_layer(features, dcnv2.feature_columns())


class Stock(Side):
    """A lookup for each column."""

    def embeddings(self, features):
        return tf.concat([self._looked_up(name, features[name]) for name in criteo.STRINGS], 1)

    def _looked_up(self, name, strings):
        table = tf.get_variable(name, [self.options.field, criteo.DIMS[name]], use_resource=True,
                                initializer=tf.random_normal_initializer(0, 0.05))
        samples = self.options.batch_size
        places = np.stack([np.arange(samples), np.zeros(samples, np.int64)], 1)
        keys = tf.strings.to_hash_bucket_fast(strings, self.options.field)
        return tf.nn.embedding_lookup_sparse(table, tf.SparseTensor(places, keys, [samples, 1]), None, combiner="sum")


class StockColumns(Side):
    """TensorFlow's own feature columns."""

    def embeddings(self, features):
        make = tf.feature_column
        return make.input_layer(features, [make.embedding_column(
            make.categorical_column_with_hash_bucket(name, self.options.field), criteo.DIMS[name], "sum",
            tf.random_normal_initializer(0, 0.05)) for name in criteo.STRINGS])


class Horovod(Stock):
    """The stock model on every rank."""

    def optimizer(self, optimizer):
        import horovod.tensorflow as hvd
        return hvd.DistributedOptimizer(optimizer, op=hvd.Sum)

    def begin(self):
        import horovod.tensorflow as hvd
        return hvd.broadcast_global_variables(0)


SIDES = {"group": Group, "columns": Columns, "stock": Stock, "stock columns": StockColumns, "horovod": Horovod}


def strings_of(keys):
    """Hashed strings of keys int64 [26, B], a field's unlike another's."""
    mixed = (keys * 2654435761 + np.arange(len(keys))[:, np.newaxis] * 40503 + 12345) % 2 ** 32
    return np.array([[b"%08x" % key for key in row] for row in mixed.tolist()], object)


def make_batch(options, rank, number):
    """Keys by the power law of workload.py, random numbers and labels."""
    random = np.random.RandomState([options.seed, rank, number])
    shape = [len(criteo.STRINGS), options.batch_size]
    keys = power_law_keys(random, shape[0] * shape[1], options.field).reshape(shape)
    return Batch(strings_of(keys), random.randint(0, 50, [len(criteo.NUMBERS), options.batch_size]).astype(np.float32),
                 (random.uniform(size=options.batch_size) < 0.25).astype(np.float32))


def fill(side, options, ranks, batch):
    """Gives all keys rows, in random order, by lookups."""
    mine = np.array_split(np.random.RandomState(3).permutation(options.field), ranks.size)[ranks.rank]
    most = max(ranks.gather(len(mine)))
    for start in range(0, most, options.batch_size):
        keys = np.resize(mine[start:] if start < len(mine) else mine, options.batch_size)
        side.select(batch._replace(strings=strings_of(np.broadcast_to(keys, [len(criteo.STRINGS), len(keys)]))))
        side.run("insert")


def main():
    """Measures; rank 0 writes."""
    options = asked()
    jobs.take_gpu(options.gpus)
    tf.logging.set_verbosity(tf.logging.ERROR)
    ranks = Ranks("horovod" in options.sides, options.ranks == 1)
    if "horovod" not in options.sides:
        sok.init()
    options.field = options.vocabulary // len(criteo.STRINGS)
    options.device_name = "/gpu:0" if options.gpus else "/cpu:0"
    config = model_sides.session_config(options.threads)
    batches = [make_batch(options, ranks.rank, number) for number in range(options.batches)]
    sides = {name: SIDES[name](options, config, ranks) for name in options.sides}
    for side in sides.values():
        if isinstance(side, Group):
            fill(side, options, ranks, batches[0])
    found = {"ms": time_steps({name: model_sides.Mode(side, "step") for name, side in sides.items()}, batches,
                              vars(options), ranks),
             "losses": {name: side.loss() for name, side in sides.items()}}
    if not all(0 < loss < 2 for loss in found["losses"].values()):
        raise RuntimeError("losses are {}: something is wrong".format(found["losses"]))
    found.update(model_sides.describe(options))
    answer(ranks, found)


if __name__ == "__main__":
    tf.disable_v2_behavior()
    main()

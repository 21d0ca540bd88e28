"""One rank of dcnv2.py: [mpiexec -np N] python benchmarks/dcnv2_rank.py OPTIONS.json RESULT.json"""
import collections
import os
import sys
import time

import contrib
import jobs
import model_sides
import numpy as np
import step_trace
import tensorflow.compat.v1 as tf
from measure import Ranks, answer, asked, time_steps
from workload import power_law_keys

import sok1x as sok

# The example's file has the name of the benchmark's.
EXAMPLES = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "legacy_examples")
sys.path.insert(0, EXAMPLES)
import criteo  # noqa: E402
import dcnv2  # noqa: E402

RATES = {"lazyadam": 0.001, "adagrad": 0.01, "sgd": 0.01}
Batch = collections.namedtuple("Batch", "strings numbers labels")


def optimizer_of(name, ours):
    """The optimizer; ours: whether it steps tables of ours, for which LazyAdam has a kernel of ours, likewise."""
    if name == "lazyadam":
        return (sok.tf.keras.optimizers.LazyAdamOptimizer if ours else contrib.lazy_adam)(RATES[name])
    return {"adagrad": tf.train.AdagradOptimizer, "sgd": tf.train.GradientDescentOptimizer}[name](RATES[name])


class Side:
    """A graph and a session; `steps` has what to run, `seconds` how long it took to build it and to begin."""

    ours = False  # whether tables are sok1x's

    def __init__(self, options, config, ranks):
        self.options, self.ranks, self.graph, self.seconds = options, ranks, tf.Graph(), {}
        began = time.perf_counter()
        with self.graph.as_default():
            tf.set_random_seed(options.seed)
            features, labels = self._inputs()
            with tf.device(options.device_name):
                embeddings = self.embeddings(features)
                logits = dcnv2.dcnv2(embeddings, features, options)
                entropy = tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)
                self._loss = tf.reduce_sum(entropy) / (options.batch_size * ranks.size)
                step = self.train(embeddings, self.optimizer(optimizer_of(options.optimizer, self.ours)))
            self.steps = {"step": step, "insert": tf.group(embeddings)}
            begin = self.begin()
            initialize = [tf.global_variables_initializer(), tf.local_variables_initializer()]
        self.seconds["graph"] = time.perf_counter() - began
        began = time.perf_counter()
        self.session = tf.Session(graph=self.graph, config=config)
        self.session.run(initialize)
        self.session.run(begin)
        self.seconds["initialize"] = time.perf_counter() - began

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

    def train(self, embeddings, optimizer):
        """The op of a step."""
        return optimizer.minimize(self._loss)

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

    ours = True

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


class Dense(Group):
    """What is left of 'group' where embeddings cost nothing: they are there, and their gradient is made and dropped."""

    def embeddings(self, features):
        return model_sides.input_variable("embeddings", [self.options.batch_size, sum(criteo.DIMS.values())],
                                          tf.float32).read_value()

    def train(self, embeddings, optimizer):
        variables = tf.trainable_variables()
        *gradients, dropped = tf.gradients(self._loss, variables + [embeddings])
        kept = model_sides.input_variable("gradient", embeddings.shape, tf.float32)  # else nothing would compute it
        return tf.group(kept.assign(dropped, read_value=False),
                        optimizer.apply_gradients(zip(self.summed(gradients), variables)))

    def summed(self, gradients):
        """Over the ranks: sok1x's optimizer does that where it applies them."""
        return gradients


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


class HorovodDense(Horovod):
    """What is left of 'horovod' where embeddings cost nothing."""

    embeddings, train = Dense.embeddings, Dense.train

    def summed(self, gradients):
        import horovod.tensorflow as hvd
        return [hvd.allreduce(gradient, op=hvd.Sum) for gradient in gradients]


SIDES = {"group": Group, "columns": Columns, "dense": Dense, "stock": Stock, "stock columns": StockColumns,
         "horovod": Horovod, "horovod dense": HorovodDense}
_DIGITS = np.frombuffer(b"0123456789abcdef", np.uint8)


def strings_of(keys):
    """Hashed strings of keys int64 [26, B], eight hexadecimal digits, a field's unlike another's."""
    mixed = (keys * 2654435761 + np.arange(len(keys))[:, np.newaxis] * 40503 + 12345) % 2 ** 32
    digits = _DIGITS[mixed[..., np.newaxis] >> np.arange(28, -1, -4) & 15]
    return np.ascontiguousarray(digits).view("S8")[..., 0].astype(object)


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
    most, began = max(ranks.gather(len(mine))), time.perf_counter()
    for start in range(0, most, options.batch_size):
        keys = np.resize(mine[start:] if start < len(mine) else mine, options.batch_size)
        side.select(batch._replace(strings=strings_of(np.broadcast_to(keys, [len(criteo.STRINGS), len(keys)]))))
        side.run("insert")
    side.seconds["fill"] = time.perf_counter() - began


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
        if side.ours and not isinstance(side, Dense):
            fill(side, options, ranks, batches[0])
    found = {"ms": time_steps({name: model_sides.Mode(side, "step") for name, side in sides.items()}, batches,
                              vars(options), ranks),
             "losses": {name: side.loss() for name, side in sides.items()},
             "seconds": {name: {what: round(value, 2) for what, value in side.seconds.items()}
                         for name, side in sides.items()}}
    if options.profile:
        found["traces"] = {}
        for name, side in sides.items():
            side.select(batches[0])
            ranks.barrier()
            found["traces"][name] = step_trace.traced(side.session, side.steps["step"])
    if not all(0 < loss < 2 for loss in found["losses"].values()):
        raise RuntimeError("losses are {}: something is wrong".format(found["losses"]))
    found.update(model_sides.describe(options))
    answer(ranks, found)


if __name__ == "__main__":
    tf.disable_v2_behavior()
    main()

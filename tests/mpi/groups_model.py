"""For the programs that run lookups together and one by one: how ops come together, and what a run came to."""
import contextlib
import re
import threading

import lane_groups
import numpy as np
import tensorflow.compat.v1 as tf

import sok1x as sok
from sok1x.graph_ops.bridge import bulk, library
from sok1x.graph_ops.bridge.configs import NoConfig
from sok1x.graph_ops.bridge.registry import Operation, get, register
from sok1x.graph_ops.bridge.tensorflow_versions import own_words

tf.logging.set_verbosity(tf.logging.ERROR)
FORWARD, BACKWARD, DISTINCT, BAG_FORWARD, BAG_BACKWARD = OPERATIONS = (
    "operations.dense_lookup.forward", "operations.dense_lookup.backward", "operations.distinct_rows.find",
    "operations.combined_lookup.forward", "operations.combined_lookup.backward")
BAG_WEIGHTS = "operations.bag_weights.gradient"

all_bags = [False]  # whether a Model that says nothing of it looks all its tables up by bag
bags_by = ["all2all"]  # by which exchange, where it says nothing of that
pause = [None]  # called, if there is something, before the executor looks into its queue: `settle` or a shorter one
# How TensorFlow begins where it has heard of an error in several ways, as a step's parts on CPU and GPU do; 2 has
# INVALID_ARGUMENT for "Invalid argument".
_SEVERAL = re.compile(r"\d+ root error\(s\) found\.\s+\(0\) [\w ]+: ")
sizes = {}  # name of an operation -> [members of each group that has run]


def _wait():
    if pause[0]:
        pause[0]()


def _slow_take(self, *arguments, take=bulk.Intake.take):
    _wait()
    return take(self, *arguments)


bulk.Intake.take = _slow_take


def _count_groups():
    for name in OPERATIONS + (BAG_WEIGHTS,):
        group = get(name).group

        def counting(members, world, name=name, run=group.run):
            sizes.setdefault(name, []).append(len(members))
            return run(members, world)
        group.run = counting


_count_groups()


# C++ goes on by itself with what comes next.
lane_groups.watch(lambda name, members, left: sizes.setdefault(name, []).append(members), _wait)


@register
class _Gate(Operation):
    """Does nothing: what waits for it becomes ready at once, when the executor is awake."""

    name = "test.gate"

    def run(self, request, config, world, headers):
        pass


def gate():
    """An op after which all that waits for it is in the executor's queue together, where `pause` is `settle`."""
    return library.call("test.gate", NoConfig(), [], [], [], name="gate")


@contextlib.contextmanager
def one_by_one():
    """Inside, no operation has a grouped form."""
    groups = {name: get(name).group for name in OPERATIONS}
    for name in groups:
        get(name).group = None
    try:
        yield
    finally:
        for name, group in groups.items():
            get(name).group = group


def in_bags(keys, most=2):
    """Keys [K] as bags of `most`, the last ones of fewer, and of none."""
    place = tf.range(tf.size(keys, out_type=tf.int64))
    return tf.SparseTensor(tf.stack([place // most, place % most], axis=1), keys,
                           tf.stack([(tf.size(keys, out_type=tf.int64) + 2 * most - 1) // most, most]))


class Model:
    """Lookups of several tables by fed keys [K], and what their gradients are given, all behind gates.

    Args:
      tables: (rows, hashed) of each. lookups: for each lookup (its table's number, training).
      rate: of plain gradient descent. dim: D of the first table; each has one more than the one before.
      bags: numbers of the tables that are looked up by bag, `in_bags`; None: all or none, as `all_bags` says.
      most: keys of such a bag. exchange: of those lookups.
    """

    def __init__(self, tables, lookups, dim=3, rate=0.5, global_step=None, bags=None, most=2,
                 exchange=None):
        if bags is None:
            bags = range(len(tables) if all_bags[0] else 0)
        self.layers = [
            sok.DistributedEmbedding("sum" if number % 2 else "mean", rows, dim + number, 1, most,
                                     use_hashtable=hashed, exchange=exchange or bags_by[0]) if number in bags else
            sok.All2AllDenseEmbedding(rows, dim + number, 1, 1, use_hashtable=hashed, dynamic_input=True)
            for number, (rows, hashed) in enumerate(tables)]
        self.variables = [layer.embedding_variable for layer in self.layers]
        self.keys = [tf.placeholder(tf.int64, [None]) for _ in lookups]
        with tf.control_dependencies([gate()]):
            keys = [tf.identity(one) for one in self.keys]
        keys = [in_bags(one, most) if number in bags else one for one, (number, _) in zip(keys, lookups)]
        self.outs = [self.layers[number](one, training=training) for one, (number, training) in zip(keys, lookups)]
        with tf.control_dependencies(self.outs + [gate()]):
            self.given = [tf.placeholder_with_default(tf.cast(out, tf.float32) + 1, None) for out in self.outs]
        self.gradients = tf.gradients(self.outs, self.variables, grad_ys=self.given)
        pairs = [pair for pair in zip(self.gradients, self.variables) if pair[0] is not None]
        self.step = tf.train.GradientDescentOptimizer(rate).apply_gradients(pairs, global_step=global_step)

    def feed(self, batches, given=None):
        """Feeds keys, and what some gradients are given: {number of the lookup: array}."""
        fed = dict(zip(self.keys, batches))
        fed.update({self.given[number]: values for number, values in (given or {}).items()})
        return fed


@contextlib.contextmanager
def session():
    """A session with Init and all variables run."""
    with tf.Session() as made:
        made.run(sok.Init(global_batch_size=64))
        made.run(tf.global_variables_initializer())
        yield made


def outcome(made, fetches, feed):
    """What a run gives, or (the error's class, what it says first)."""
    try:
        return made.run(fetches, feed)
    except tf.errors.OpError as error:
        # Of a fused node TensorFlow 2 knows no place, and says none.
        message = re.sub(r"\AGraph execution error:\s*", "", own_words(error.message))
        return type(error).__name__, _SEVERAL.sub("", message).split("\n")[0]


def each(made, fetches, feed):
    """The outcomes of runs of their own, one for each fetch, at the same time: what fails cancels no other."""
    found = [None] * len(fetches)

    def run(number):
        found[number] = outcome(made, fetches[number], feed)
    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(fetches))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def flatten(tree):
    """The arrays and strings of nested lists."""
    if isinstance(tree, (list, tuple)):
        return [leaf for part in tree for leaf in flatten(part)]
    return [tree if isinstance(tree, str) else np.asarray(tree) if tree is not None else "none"]


def same(ours, theirs):
    """Asserts that two nested lists are equal, bit for bit."""
    ours, theirs = flatten(ours), flatten(theirs)
    assert len(ours) == len(theirs), (ours, theirs)
    for place, (one, other) in enumerate(zip(ours, theirs)):
        if isinstance(one, str) or isinstance(other, str):
            assert isinstance(one, str) and isinstance(other, str) and one == other, (one, other)
        else:
            assert (one.dtype, one.shape) == (other.dtype, other.shape), (one, other)
            assert one.tobytes() == other.tobytes(), (place, one, other)


def keys(*numbers):
    return np.array(numbers, np.int64)


def fails(found, error, *words):
    """Asserts that an outcome is an error of this class with these words."""
    assert found[0] == error and all(word in found[1] for word in words), (found, error, words)


def quoted(model, number):
    """How errors name a table of the model."""
    return "'{}'".format(model.variables[number].table.name)

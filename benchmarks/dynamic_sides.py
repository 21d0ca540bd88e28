"""One table of sok1x with LazyAdam on it, of fixed size, growing or forgetting, for dynamic.py."""
import time

import contrib
import numpy as np
import tensorflow.compat.v1 as tf
from gpu_sides import session_config  # noqa: F401 (for dynamic.py)
from workload import make_batches

import sok1x as sok
from sok1x.graph_ops.stores.forgetting import EVICTED

_AT_ONCE = 1 << 18  # keys that are filled in at a time


def keys_at_once(table):
    """How many keys a lookup has that fills a table: in a cache half of its rows, if these are less."""
    cache = table.table.cache
    return _AT_ONCE if cache is None else max(1, min(_AT_ONCE, cache.rows // 2))


class Side:
    """A graph with a layer and its training step, and a session.

    Args:
        options: dynamic.py's.
        rows: of a table of fixed size; None: it grows.
        new: share of each batch's positions that ask for keys that have never been there.
        **table: the layer's options besides.
    """

    def __init__(self, options, rows, new=0.0, **table):
        self._options, self._number = options, 0
        self.graph = tf.Graph()
        with self.graph.as_default(), tf.device(options.device_name):
            self._session = tf.Session(config=session_config())
            sok.init()
            layer = sok.All2AllDenseEmbedding(rows, options.dim, options.slots, 1, **table)
            self.table = layer.embedding_variable
            self._key = tf.placeholder(tf.int64, [None])
            self._fill = layer(tf.reshape(self._key, [-1, options.slots, 1]), training=True).op
            self._one = self._lookup_of_one(layer)
            shape = [options.samples, options.slots, 1]
            keys, values = self._keys(options, new)
            embeddings = layer(tf.reshape(keys, shape), training=True)
            self._embeddings = embeddings.op
            target = self._constant("target", np.random.RandomState(7).normal(
                size=shape[:2] + [options.dim]).astype(np.float32))
            values.append(target)
            loss = 0.5 * tf.reduce_sum((tf.reshape(embeddings, shape[:2] + [options.dim]) - target[0]) ** 2)
            with sok.OptimizerScope([self.table]):
                self._step = self._train(loss)
            stats = sok.table_stats(layer)
            self._capacity, self._bytes = stats.capacity, stats.device_bytes
            self._init = tf.global_variables_initializer()
        self._session.run(self._init)
        for variable, feed, value in values:
            self._session.run(variable.initializer, {feed: value})

    def _train(self, loss):
        optimizer = sok.tf.keras.optimizers.LazyAdamOptimizer(0.001)
        gradient, = tf.gradients(loss, [self.table])
        return optimizer.apply_gradients([(gradient, self.table)])

    def _lookup_of_one(self, layer):
        """A lookup of the first key alone, in all places."""
        return layer(tf.fill([1, self._options.slots, 1], self._key[0]), training=True).op

    def _keys(self, options, new):
        """A batch's keys in the device's memory, some of them replaced by new ones; and the variables to fill."""
        batches = np.stack([batch.keys for batch in make_batches("dense", vars(options), 0)])
        self._batch, self._place = tf.placeholder(tf.int32, []), tf.placeholder(tf.int64, [])
        if not new:
            held = self._constant("batches", batches)
            return held[0][self._batch], [held]
        count = batches.shape[1]
        fresh = np.random.RandomState(options.seed).random_sample(batches.shape) < new
        held = self._constant("batches", batches)
        marks = self._constant("new", fresh.astype(np.int64))
        never = options.vocabulary + self._place * count + tf.range(count, dtype=tf.int64)
        return tf.where(marks[0][self._batch] > 0, never, held[0][self._batch]), [held, marks]

    @staticmethod
    def _constant(name, value):
        """(a variable, its placeholder, its value): not a part of the graph's definition, which has a limit."""
        feed = tf.placeholder(value.dtype, value.shape)
        return tf.get_variable(name, initializer=feed, use_resource=True, trainable=False, collections=[]), feed, value

    def fill(self, keys):
        """Has keys get rows."""
        slots = self._options.slots
        at_once = keys_at_once(self.table)
        for first in range(0, len(keys), at_once):
            piece = keys[first:first + at_once]
            self._session.run(self._fill, {self._key: np.resize(piece, -(-len(piece) // slots) * slots)})

    def run(self):
        """A training step with the next batch."""
        self._run(self._step)

    def _run(self, what):
        self._session.run(what, {self._batch: self._number % self._options.batches, self._place: self._number})
        self._number += 1

    def look_up_one(self, device, key):
        """Looks up one key, a new one where all rows are in use if the table is to grow; ms."""
        key = {self._key: [key]}
        device.synchronize()
        began = time.perf_counter()
        self._session.run(self._one, key)
        device.synchronize()
        return (time.perf_counter() - began) * 1e3

    def capacity(self):
        """V now."""
        return int(self._session.run(self._capacity))

    def bytes(self):
        """Of all the table's variables."""
        return int(self._session.run(self._bytes))

    def evicted(self):
        """Keys that have left, in all."""
        counters = self.table.forgetting.get("counters")
        return 0 if counters is None else int(self._session.run(counters)[EVICTED])

    def peak(self):
        """The most bytes that TensorFlow's allocator has given at a time."""
        return contrib.most_bytes_in_use(self._session, self._options.device_name)

    def close(self):
        """Gives the memory back."""
        self._session.close()

"""Tables in host memory with a cache, for dynamic.py: training steps, and what an exact LRU would have found."""
import argparse
import time

import dynamic_sides
import numpy as np
import tensorflow.compat.v1 as tf
from workload import make_batches

import sok1x as sok
from sok1x.graph_ops.stores import cache

FLOATS = 3  # for each of a row: itself, and LazyAdam's two


class TrainingSide(dynamic_sides.Side):
    """A side with `batches` different batches of keys of all `vocabulary` rows.

    Args:
        options: dynamic.py's. vocabulary, batches: in place of the options'. rows, **table: as `dynamic_sides.Side`'s.
    """

    def __init__(self, options, vocabulary, batches, rows, **table):
        changed = dict(vars(options), vocabulary=vocabulary, batches=batches)
        super().__init__(argparse.Namespace(**changed), rows, **table)

    def look_up(self):
        """The lookup of the next batch alone, as in training."""
        self._run(self._embeddings)

    def numbers(self):
        """What the table counts of its cache, an array; None without one."""
        tiers = self.table.forgetting.get("tiers")
        return None if tiers is None else self._session.run(tiers)

    def host_bytes(self):
        """Of the table's rows in host memory."""
        return int(self.numbers()[cache.HOST_BYTES])


class LookupSide:
    """An evaluation of distinct keys in a table without optimizer; keys and rows stay on the device.

    Args:
        options: dynamic.py's. vocabulary: keys 0 to vocabulary - 1 have rows. dim: D. rows, **table: the layer's.
    """

    def __init__(self, options, vocabulary, dim, rows, **table):
        self._graph = tf.Graph()
        with self._graph.as_default(), tf.device(options.device_name):
            self._session = tf.Session(config=dynamic_sides.session_config())
            sok.init()
            layer = sok.All2AllDenseEmbedding(rows, dim, 1, 1, **table)
            self.table = layer.embedding_variable
            self._key = tf.placeholder(tf.int64, [None])
            self._fill = layer(tf.reshape(self._key, [-1, 1, 1]), training=True).op
            self._held = tf.get_variable("keys", initializer=tf.placeholder_with_default(
                tf.zeros([0], tf.int64), [None]), validate_shape=False, use_resource=True, trainable=False)
            self._set = tf.assign(self._held, self._key, validate_shape=False)
            self._look_up = layer(tf.reshape(self._held, [-1, 1, 1]), training=False).op
            self._session.run(tf.global_variables_initializer())
        at_once = dynamic_sides.keys_at_once(self.table)
        for first in range(0, vocabulary, at_once):
            self._session.run(self._fill, {self._key: np.arange(first, min(vocabulary, first + at_once))})

    def look_up(self, keys):
        """A function that looks these keys up."""
        self._session.run(self._set, {self._key: keys})
        return lambda: self._session.run(self._look_up)

    def close(self):
        """Gives the memory back."""
        self._session.close()


def exact_lru(options, vocabulary, batches, capacity, measured):
    """The share of distinct keys that an exact LRU of `capacity` keys has, over the last `measured` batches.

    It begins with the keys that a table that has been filled in order has: the last ones. Of keys of one batch, those
    that are equal in age, it keeps any.
    """
    used = np.full(vocabulary, -2, np.int64)
    used[-capacity:] = -1
    resident = used > -2
    hits = asked = 0
    made = make_batches("dense", dict(vars(options), vocabulary=vocabulary, batches=batches), 0)
    for number, batch in enumerate(made):
        keys = np.unique(batch.keys)
        if number >= batches - measured:
            hits, asked = hits + int(resident[keys].sum()), asked + len(keys)
        used[keys], resident[keys] = number, True
        there = np.flatnonzero(resident)
        if len(there) > capacity:
            old = np.argpartition(used[there], len(there) - capacity)[:len(there) - capacity]
            resident[there[old]] = False
    return hits / asked


def bus(device, nbytes):
    """Bytes a second of copies from pinned host memory to the device, and back; of the host's memory without a GPU."""
    gpu, memory = device.gpu, device.empty(nbytes)
    try:
        with device.use():
            pinned = np.ones(nbytes, np.uint8) if gpu is None else gpu.pinned(nbytes)
        here, rates = pinned.ctypes.data, {}
        for name, enqueue in (("to the device", lambda: _copy(device, memory, here, nbytes, True)),
                              ("to the host", lambda: _copy(device, here, memory, nbytes, False))):
            with device.use():
                rates[name] = nbytes / (np.median([device.timed(enqueue) for _ in range(6)][1:]) / 1e3)
    finally:
        device.free(memory)
    return rates


def _copy(device, target, source, nbytes, to_device):
    if device.gpu is None:
        device.copy(target, source, nbytes)
    elif to_device:
        device.gpu.to_device(target, source, nbytes)
    else:
        device.gpu.to_host(target, source, nbytes)


def alternate(device, sides, rounds):
    """{name: ms of each call} of functions by name, in alternating rounds."""
    times = {name: [] for name in sides}
    for number in range(rounds):
        for name in sorted(sides, reverse=bool(number % 2)):
            device.synchronize()
            began = time.perf_counter()
            sides[name]()
            device.synchronize()
            times[name].append((time.perf_counter() - began) * 1e3)
    return times

"""Lookups and gradients of many tables, run together and one by one: the same bits.

    [mpiexec -np N] python program_groups.py SEED

Tables of random dims, types and sizes are trained for some steps, twice from the same start: once as they come, with
executor held up at each step until all lookups are in its queue, so that they run as one; once with the grouped forms
forms taken away. Embeddings of every step, and all variables at the end, are compared bit for bit.
"""
import sys
import time

import numpy as np
import tensorflow as tf

import sok1x as sok
from sok1x import launch
from sok1x.graph_ops.bridge import library
from sok1x.graph_ops.bridge.configs import NoConfig
from sok1x.graph_ops.bridge.registry import Operation, get, register

tf.logging.set_verbosity(tf.logging.ERROR)
STEPS = 4
OPERATIONS = ("operations.dense_lookup.forward", "operations.dense_lookup.backward", "operations.distinct_rows.find")


@register
class _Hold(Operation):
    """Holds the executor up while TensorFlow's threads fill its queue."""

    name = "test.hold"

    def run(self, request, config, world, headers):
        time.sleep(0.15)


def hold():
    """An op after which the queue has all that is ready."""
    return library.call("test.hold", NoConfig(), [], [], [], name="hold")


class Tables:
    """Random tables with a batch of keys for every step, different on each rank; the same tables on all ranks."""

    def __init__(self, seed, rank):
        common = np.random.RandomState([seed, 1])
        own = np.random.RandomState([seed, 2, rank])
        self.layers, self.batches = [], []
        for number in range(common.randint(8, 14)):
            dim = int(common.choice([1, 2, 3, 4, 7, 16, 31, 64, 128, 300]))
            hashed = bool(common.rand() < 0.7)
            rows = int(common.randint(50, 120))
            slots, keys = int(common.randint(1, 3)), int(common.randint(1, 4))
            key_dtype = str(common.choice(["int64", "uint32"] if hashed else ["int64"]))
            half = bool(common.rand() < 0.4)
            self.layers.append((dim, hashed, rows, slots, keys, key_dtype, half))
            self.batches.append([own.randint(0, 40, (own.choice([0, 1, 5, 30]), slots, keys)) for _ in range(STEPS)])

    def __len__(self):
        return len(self.layers)


def train(tables, together):
    """(what each step's lookups gave, the variables at the end)."""
    groups = {name: get(name).group for name in OPERATIONS}
    assert all(group is not None for group in groups.values())
    if not together:
        for name in OPERATIONS:
            get(name).group = None
    with tf.Graph().as_default():
        tf.set_random_seed(3)
        fed, outs, losses, variables = [], [], [], []
        for number, (dim, hashed, rows, slots, keys, key_dtype, half) in enumerate(tables.layers):
            fed.append(tf.placeholder(key_dtype, [None, slots, keys]))
            layer = sok.All2AllDenseEmbedding(rows, dim, slots, keys, use_hashtable=hashed, key_dtype=key_dtype,
                                              dtype="float16" if half else "float32")
            with tf.control_dependencies([hold()] if not number else []):
                out = layer(tf.identity(fed[-1]))
            outs.append(out)
            scale = tf.constant(np.random.RandomState(number).randint(-4, 5, dim) / 8.0, out.dtype)
            losses.append(tf.reduce_sum(out * out * scale))
            variables.append(layer.embedding_variable)
        with tf.control_dependencies(outs + [hold()]):
            loss = tf.add_n([tf.cast(tf.identity(one), tf.float32) for one in losses])
        gradients = tf.gradients(loss, variables)
        step = sok.optimizers.Adam(0.1).apply_gradients(zip(gradients, variables))
        found = []
        with tf.Session() as session:
            session.run(sok.Init(global_batch_size=64))
            session.run(tf.global_variables_initializer())
            for number in range(STEPS):
                feed = {one: batches[number] for one, batches in zip(fed, tables.batches)}
                found.append(session.run([outs, [gradient.values for gradient in gradients],
                                          [gradient.indices for gradient in gradients], step], feed)[:3])
            state = session.run(tf.global_variables())
    for name, group in groups.items():
        get(name).group = group
    return found, state


def flatten(tree):
    """The arrays of nested lists."""
    if isinstance(tree, (list, tuple)):
        return [array for part in tree for array in flatten(part)]
    return [np.asarray(tree)]


def main():
    seed = int(sys.argv[1])
    with tf.Session() as session:
        session.run(sok.Init(global_batch_size=64))
    rank = launch.current().rank
    tables = Tables(seed, rank)
    counted = {}
    for name in OPERATIONS:
        group, run = get(name).group, get(name).group.run

        def counting(members, world, name=name, run=run):
            batch = run(members, world)
            counted[name] = counted.get(name, 0) + len(members) - len(batch.left)
            return batch
        group.run = counting
    one_by_one = train(tables, False)
    assert not counted, counted
    together = train(tables, True)
    assert all(counted[name] > len(tables) for name in OPERATIONS), (counted, len(tables))
    for ours, theirs in zip(flatten(together), flatten(one_by_one)):
        assert ours.dtype == theirs.dtype and ours.shape == theirs.shape, (ours.shape, theirs.shape)
        assert ours.tobytes() == theirs.tobytes()
    print("rank {}: {} tables, together {}".format(rank, len(tables), counted))


if __name__ == "__main__":
    main()

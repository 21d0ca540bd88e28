"""Lookups and gradients of many tables, run together and one by one: the same bits.

    [mpiexec -np N] python program_groups.py SEED

Tables of random dims, types and sizes, looked up by key or by bag, are trained for some steps, several times from the
same start: as they come, with the executor held up at each step until all lookups are in its queue, so that they run
as one; so once more, with rows made distinct by the lookups already (ahead.h), as on GPUs; and with the grouped forms
taken away. Embeddings of every step, and all variables at the end, are compared bit for bit.
"""
import sys
import typing

import lane_groups
import numpy as np
import tensorflow.compat.v1 as tf
from groups_model import OPERATIONS, flatten, one_by_one
from settled import settle

import sok1x as sok
from sok1x import launch
from sok1x.graph_ops.bridge import library
from sok1x.graph_ops.bridge.configs import NoConfig
from sok1x.graph_ops.bridge.registry import Operation, get, register

tf.logging.set_verbosity(tf.logging.ERROR)
STEPS = 4


@register
class _Hold(Operation):
    """Holds the executor up while TensorFlow's threads fill its queue."""

    name = "test.hold"

    def run(self, request, config, world, headers):
        settle()


def hold():
    """An op after which the queue has all that is ready."""
    return library.call("test.hold", NoConfig(), [], [], [], name="hold")


def given_dtype(layer):
    """Of the keys that a layer is fed with: those of some tables are narrower than the tables' own."""
    return "int32" if layer.key_dtype == "int64" and layer.rows % 2 else layer.key_dtype


class Dense(typing.NamedTuple):
    """A table whose rows are looked up by key."""

    dim: int
    hashed: bool
    rows: int
    slots: int
    keys: int
    key_dtype: str
    half: bool

    def batch(self, random):
        return random.randint(0, 40, (random.choice([0, 1, 5, 30]), self.slots, self.keys))

    def fed(self):
        return tf.placeholder(given_dtype(self), [None, self.slots, self.keys])

    def look_up(self, keys):
        layer = sok.All2AllDenseEmbedding(self.rows, self.dim, self.slots, self.keys, use_hashtable=self.hashed,
                                          key_dtype=self.key_dtype, dtype="float16" if self.half else "float32")
        return layer, layer(tf.identity(keys))


class Combined(typing.NamedTuple):
    """A table whose rows are looked up by bag."""

    dim: int
    hashed: bool
    rows: int
    slots: int
    keys: int
    key_dtype: str
    half: bool
    combiner: str
    exchange: str

    def batch(self, random):
        """Bags of up to `keys` keys, some of them empty, the last ones too."""
        bags = int(random.choice([0, 1, 5, 30])) * self.slots
        lengths = random.randint(0, self.keys + 1, bags) * (random.rand(bags) < random.choice([0.0, 0.7, 1.0]))
        at = [(bag, place) for bag, length in enumerate(lengths) for place in range(int(length))]
        keys = random.randint(0, 40, len(at)).astype(given_dtype(self))
        return tf.SparseTensorValue(np.array(at, np.int64).reshape(-1, 2), keys, [bags, self.keys])

    def fed(self):
        return tf.sparse.placeholder(given_dtype(self))

    def look_up(self, keys):
        layer = sok.DistributedEmbedding(self.combiner, self.rows, self.dim, self.slots, self.keys,
                                         use_hashtable=self.hashed, key_dtype=self.key_dtype, exchange=self.exchange,
                                         dtype="float16" if self.half else "float32")
        return layer, layer(tf.SparseTensor(keys.indices, tf.identity(keys.values), keys.dense_shape))


class Tables:
    """Random tables with a batch of keys for every step, different on each rank; the same tables on all ranks."""

    def __init__(self, seed, rank):
        common = np.random.RandomState([seed, 1])
        own = np.random.RandomState([seed, 2, rank])
        self.layers, self.batches = [], []
        # Bags of both combiners go each way; there are two at least by each exchange.
        kinds = [None] * common.randint(6, 10) + ["all2all"] * common.randint(2, 4) + [
            "reduce_scatter"] * common.randint(2, 4) + ["auto"] * common.randint(1, 3)
        for exchange in common.permutation(kinds):
            hashed = bool(common.rand() < 0.7)
            facts = (int(common.choice([1, 2, 3, 4, 7, 16, 31, 64, 128, 300])), hashed, int(common.randint(50, 120)),
                     int(common.randint(1, 3)), int(common.randint(1, 4)),
                     str(common.choice(["int64", "uint32"] if hashed else ["int64"])), bool(common.rand() < 0.4))
            layer = Dense(*facts) if exchange is None else Combined(
                *facts, combiner=str(common.choice(["sum", "mean"])), exchange=str(exchange))
            self.layers.append(layer)
            batches = [layer.batch(own) for _ in range(STEPS - 1)]
            self.batches.append(batches + batches[:1])  # in the last step all keys have rows

    def count(self, kind):
        """How many are of a kind, of those whose exchange is known."""
        return len([layer for layer in self.layers
                    if isinstance(layer, kind) and getattr(layer, "exchange", "") != "auto"])

    def __len__(self):
        return len(self.layers)


def build(tables):
    """What trains the tables in a new session: a function that returns (what each step's lookups gave, variables)."""
    tf.set_random_seed(3)
    fed, outs, losses, variables = [], [], [], []
    for number, described in enumerate(tables.layers):
        fed.append(described.fed())
        with tf.control_dependencies([hold()] if not number else []):
            layer, out = described.look_up(fed[-1])
        outs.append(out)
        scale = tf.constant(np.random.RandomState(number).randint(-4, 5, described.dim) / 8.0, out.dtype)
        losses.append(tf.reduce_sum(out * out * scale))
        variables.append(layer.embedding_variable)
    with tf.control_dependencies(outs + [hold()]):
        loss = tf.add_n([tf.cast(tf.identity(one), tf.float32) for one in losses])
    gradients = tf.gradients(loss, variables)
    step = sok.optimizers.Adam(0.1).apply_gradients(zip(gradients, variables))
    starts = [sok.Init(global_batch_size=64), tf.global_variables_initializer()]

    def train():
        found = []
        with tf.Session() as session:
            for start in starts:
                session.run(start)
            for number in range(STEPS):
                feed = {one: batches[number] for one, batches in zip(fed, tables.batches)}
                found.append(session.run([outs, [gradient.values for gradient in gradients],
                                          [gradient.indices for gradient in gradients], step], feed)[:3])
            return found, session.run(tf.global_variables())
    return train


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

    def saw(name, members, left):
        counted[name] = counted.get(name, 0) + members - left
    lane_groups.watch(saw)
    with tf.Graph().as_default():
        train = build(tables)
        with one_by_one():
            alone = train()
        assert not counted, counted
        together = train()
        seen = dict(counted)
        ahead = lane_groups.loaded()
        taken = -ahead.sok1x_ahead_taken()  # on GPUs some have been
        ahead.sok1x_ahead_on_hosts(1)
        numbered = train()
        taken += ahead.sok1x_ahead_taken()
    least = dict.fromkeys(OPERATIONS[:2], STEPS * tables.count(Dense))
    least.update(dict.fromkeys(OPERATIONS[3:], STEPS * tables.count(Combined)))
    least[OPERATIONS[2]] = tables.count(Dense) // 2  # on several ranks not of those that nobody asks
    assert all(seen[name] >= least[name] for name in OPERATIONS), (seen, least)
    assert tables.count(Dense) // 2 <= taken <= STEPS * len(tables), taken
    for ours, theirs in [(together, alone), (numbered, alone)]:
        for one, other in zip(flatten(ours), flatten(theirs)):
            assert one.dtype == other.dtype and one.shape == other.shape, (one.shape, other.shape)
            assert one.tobytes() == other.tobytes()
    print("rank {}: {} tables, together {}".format(rank, len(tables), seen))


if __name__ == "__main__":
    main()

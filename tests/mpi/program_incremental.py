"""Incremental dumps of both layers from a hook, on however many ranks it is started, against a record in Python.

    mpiexec -np N python program_incremental.py SEED

Every rank dumps its shards after every third step, each with what it has recorded of all ranks' batches.
"""
import sys

import numpy as np
import tensorflow.compat.v1 as tf

import sok1x as sok

tf.logging.set_verbosity(tf.logging.ERROR)
SLOTS, KEYS, ROWS, DIM, STEPS, EVERY = 2, 3, 64, 5, 9, 3


class Table:
    """A layer with this rank's keys [K] to feed, and the step at which each key of any rank last changed."""

    def __init__(self, name, layer, look_up):
        self.name, self.layer, self.shard = name, layer, layer.embedding_variable
        self.keys = tf.placeholder(layer.key_dtype, [None])
        self.loss = tf.reduce_sum(look_up(layer, self.keys, True) ** 2)
        self.changed = {}
        self.every = tf.placeholder(layer.key_dtype, [None])  # all ranks look all up, one key a bag
        self.values = tf.reshape(look_up(layer, self.every, False), [-1, DIM])

    def batch(self, random):
        """Keys of one rank's step; now and then none."""
        count = SLOTS * KEYS * random.randint(0, 4)
        if not self.layer.use_hashtable:
            return random.randint(0, 40, count)
        return self.choice[random.randint(0, len(self.choice), count)]


def dense(layer, keys, training):
    if not training:
        keys = tf.pad(keys, [[0, tf.floormod(-tf.size(keys), SLOTS * KEYS)]])
    return layer(tf.reshape(keys, [-1, SLOTS, KEYS]), training=training)


def bags(layer, keys, training):
    count = tf.size(keys, out_type=tf.int64)
    rows = tf.range(count)
    indices = tf.stack([rows, tf.zeros_like(rows)], 1)
    return layer(tf.SparseTensor(indices, keys, [count + tf.floormod(-count, SLOTS), KEYS]), training)


def tables(seed):
    """Layers with and without a hash table, by both exchanges."""
    options = dict(max_vocabulary_size_per_gpu=ROWS, embedding_vec_size=DIM, slot_num=SLOTS)
    random = np.random.RandomState(seed)
    made = [Table("dense", sok.All2AllDenseEmbedding(nnz_per_slot=KEYS, **options), dense),
            Table("direct", sok.All2AllDenseEmbedding(nnz_per_slot=KEYS, use_hashtable=False, key_dtype="int32",
                                                      **options), dense)]
    made += [Table(exchange, sok.DistributedEmbedding("mean", max_nnz=KEYS, key_dtype=key_dtype, exchange=exchange,
                                                      **options), bags)
             for exchange, key_dtype in (("all2all", "int64"), ("reduce_scatter", "uint32"))]
    for table in made:
        kind = np.iinfo(table.layer.key_dtype.as_numpy_dtype)
        table.choice = random.randint(kind.min, kind.max, 40, kind.dtype)
    return made


class Dumps(tf.train.SessionRunHook):
    """Checks a dump since the last one, and some since other steps."""

    def __init__(self, made, rank, ranks):
        self.made, self.rank, self.ranks = made, rank, ranks
        self.last, self.count = 0, 0

    def before_run(self, run_context):
        return tf.train.SessionRunArgs(tf.train.get_global_step())

    def after_run(self, run_context, run_values):
        assert tf.get_default_graph().finalized
        now = run_context.session.run(tf.train.get_global_step())
        if now % EVERY:
            return
        for since in (self.last, now, 0, now - 1, -1):
            dumps = sok.incremental_dump([table.shard for table in self.made], since)
            for table, (keys, values) in zip(self.made, dumps):
                self.check(run_context.session, table, since, keys, values)
        self.last = now
        self.count += 1

    def check(self, session, table, since, keys, values):
        expected = {key for key, step in table.changed.items() if step > since and key % self.ranks == self.rank}
        if since == -1 and not table.layer.use_hashtable:
            expected = set(range(self.rank, ROWS * self.ranks, self.ranks))
        assert len(keys) == len(expected) and set(keys.tolist()) == expected, (table.name, since, keys, expected)
        assert keys.dtype.name == table.layer.key_dtype.name and values.shape == (len(keys), DIM)
        # As lookups read them. Ranks have different numbers of keys, and all look up.
        read = session.run(table.values, {table.every: keys})[:len(keys)]
        np.testing.assert_array_equal(read, values)


def main():
    seed = int(sys.argv[1])
    made = tables(seed)
    number = tf.train.get_or_create_global_step()
    optimizer = tf.train.GradientDescentOptimizer(0.1)
    alternate = [optimizer.minimize(tf.add_n([table.loss for table in part]), number)
                 for part in (made[:3], made[1:])]
    init = sok.InitHook(global_batch_size=8)
    init.begin()
    from mpi4py import MPI
    rank, ranks = MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size
    dumps = Dumps(made, rank, ranks)
    with tf.train.MonitoredTrainingSession(hooks=[init, dumps]) as session:
        for step in range(1, STEPS + 1):
            part = made[:3] if step % 2 else made[1:]
            feed = {}
            for table in part:
                for other in range(ranks):
                    batch = table.batch(np.random.RandomState([seed, step, other, made.index(table)]))
                    table.changed.update({key: step for key in batch.tolist()})
                    if other == rank:
                        feed[table.keys] = batch
            session.run(alternate[1 - step % 2], feed)
    assert dumps.count == STEPS // EVERY
    print("ok")


if __name__ == "__main__":
    main()

"""Lookups whose exchanges go by hosts, against NumPy: values and trained tables to the last bit, bytes, and errors.

    SOK1X_EXCHANGE_BY_HOSTS=L mpiexec -np N python program_by_hosts.py SEED

Gradients are small whole numbers and the rate is 1, so that sums are exact in whatever order they are made.
"""
import sys

import numpy as np
import tensorflow.compat.v1 as tf
from mpi4py import MPI

import sok1x as sok
from sok1x import launch
from sok1x.graph_ops.bridge import bridge, op_functions
from sok1x.graph_ops.stores import figures

tf.logging.set_verbosity(tf.logging.ERROR)
comm = MPI.COMM_WORLD
S, H, KEYS, STEPS = 2, 3, 40, 4


class Table:
    """A layer, its placeholders, and its rows as NumPy has them.

    Args:
      kind: 'dense', or the combiner of bags. keys: [KEYS], the key of each id.
    """

    def __init__(self, kind, dim, keys, dtype="float32", **options):
        self.kind, self.dim, self.keys, self.dtype = kind, dim, keys, dtype
        if kind == "dense":
            self.layer = sok.All2AllDenseEmbedding(embedding_vec_size=dim, slot_num=S, nnz_per_slot=H, dtype=dtype,
                                                   **options)
        else:
            self.layer = sok.DistributedEmbedding(kind, embedding_vec_size=dim, slot_num=S, max_nnz=H,
                                                  exchange="all2all", dtype=dtype, **options)
        self.fed = tf.placeholder(tf.int64, [None, S, H]) if kind == "dense" else tf.sparse_placeholder(tf.int64)
        self.out, self.evaluated = self.layer(self.fed, training=True), self.layer(self.fed, training=False)
        self.weights = tf.placeholder(tf.float32, self.out.shape)
        self.loss = tf.reduce_sum(tf.cast(self.out, tf.float32) * self.weights)
        self.rows = None

    def feed(self, ids, weights=None):
        """ids: [B, S, H], -1 for none at the end of a bag."""
        if self.kind == "dense":
            feed = {self.fed: self.keys[ids]}
        else:
            flat = ids.reshape(-1, H)
            where = np.argwhere(flat >= 0)
            feed = {self.fed: (where, self.keys[flat[flat >= 0]], [len(flat), H])}
        if weights is not None:
            feed[self.weights] = weights
        return feed

    def batch(self, random):
        """ids, and whole numbers for a gradient that every number of keys of a bag divides."""
        samples = random.choice([0, 1, 5, 9])
        ids = random.randint(0, KEYS, [samples, S, H])
        if self.kind == "dense":
            return ids, random.randint(-3, 4, [samples, S, H, self.dim]).astype(np.float32)
        ids[np.arange(H) >= random.randint(0, H + 1, [samples, S, 1])] = -1
        return ids, 6 * random.randint(-3, 4, [samples, S, self.dim]).astype(np.float32)

    def expected(self, ids):
        rows = np.where(ids[..., None] >= 0, self.rows[ids], 0)
        if self.kind == "dense":
            return rows.astype(self.dtype)
        out = rows[:, :, 0]
        for i in range(1, H):
            out = out + rows[:, :, i]
        return out / np.maximum((ids >= 0).sum(-1, keepdims=True), 1) if self.kind == "mean" else out

    def change(self, ids, weights):
        """Takes the gradients of all ranks from the rows."""
        total = np.zeros_like(self.rows)
        for ids, weights in comm.allgather((ids, weights)):
            each = weights if self.kind == "dense" else np.repeat(weights[:, :, None], H, 2)
            if self.kind == "mean":
                each = each / np.maximum((ids >= 0).sum(-1), 1)[..., None, None]
            np.add.at(total, ids[ids >= 0], each[ids >= 0].astype(np.float32))
        self.rows = self.rows - total


class OfOneRank:
    """A table that one rank has all of: its keys go to it directly, beside those that go by hosts."""

    def __init__(self):
        self.variable = sok.Variable(shape=[KEYS, 3], initializer="ones", mode="localized:{}".format(comm.size - 1))
        self.fed = tf.placeholder(tf.int64, [None])
        self.out = sok.lookup_sparse(self.variable, tf.RaggedTensor.from_row_lengths(self.fed, tf.ones_like(self.fed)))
        self.rows = np.ones([KEYS, 3], np.float32)

    def check(self, keys, out):
        np.testing.assert_array_equal(out, self.rows[keys])
        for keys in comm.allgather(keys):
            np.add.at(self.rows, keys, -1)


def train(random, tables, of_one_rank, session, train_all, step):
    """One step of all tables at once; rank 1 has nothing in the first."""
    batches = [table.batch(random) for table in tables]
    if step == 0 and comm.rank == 1:
        batches = [(ids[:0], weights[:0]) for ids, weights in batches]
    asked = random.randint(0, KEYS, random.randint(0, 6))
    feed = {of_one_rank.fed: asked}
    for table, batch in zip(tables, batches):
        feed.update(table.feed(*batch))
    outs, last, _ = session.run([[table.out for table in tables], of_one_rank.out, train_all], feed)
    of_one_rank.check(asked, last)
    for table, out, (ids, weights) in zip(tables, outs, batches):
        expected = table.expected(ids)
        if table.kind == "dense":
            np.testing.assert_array_equal(out, expected)
        else:
            np.testing.assert_allclose(out, expected, rtol=1e-6, atol=1e-6)
        table.change(ids, weights)


def read(table, session):
    """The rows of all keys, [KEYS, D], as an evaluation has them; each rank asks for all."""
    ids = np.full([KEYS, S, H], -1)
    ids[:, 0, 0] = np.arange(KEYS)
    if table.kind == "dense":
        ids[:] = ids[:, :1, :1]
    out = session.run(table.evaluated, table.feed(ids))
    return (out[:, 0, 0] if table.kind == "dense" else out[:, 0]).astype(np.float32)


def check_bytes(random, table, session, gradient):
    """What a step sends is what distinct keys of ranks, and of hosts, make: counted here from all ranks' batches."""
    world, ids = launch.current(), random.randint(0, KEYS, [6, S, H])
    hosts, me, ranks = world.by_hosts, comm.rank, comm.size
    distinct = [np.unique(table.keys[one]) for one in comm.allgather(ids)]
    of_hosts = [np.unique(np.concatenate(distinct[first:first + hosts.local]))
                for first in range(0, ranks, hosts.local)]
    mine, others = me % hosts.local, [rank for rank in hosts.ranks(1) if rank != me]
    host = me // hosts.local
    near_asks = int((distinct[me] % hosts.local != mine).sum())
    near_asked = int(sum((distinct[rank] % hosts.local == mine).sum() for rank in others))
    passed_on = of_hosts[host][of_hosts[host] % hosts.local == mine]
    far_asks = int((passed_on % ranks != me).sum())
    far_asked = int(sum((keys % ranks == me).sum() for number, keys in enumerate(of_hosts) if number != host))
    asks, asked, row = near_asks + far_asks, near_asked + far_asked, 4 * table.dim
    counts = 8 * (len(others) + hosts.hosts - 1)
    feed = table.feed(ids, np.ones([6, S, H, table.dim], np.float32))
    comm.Barrier()
    before, counted = world.communicator.bytes_sent, list(figures.of(table.layer.embedding_variable.table.name))
    session.run([table.out, gradient], feed)
    sent = world.communicator.bytes_sent - before
    assert sent == 8 * asks + row * asked + row * asks + counts, (sent, asks, asked, counts)
    after = list(figures.of(table.layer.embedding_variable.table.name))
    assert after[figures.SENT] - counted[figures.SENT] == sent - counts, (counted, after, sent, counts)
    assert after[figures.RECEIVED] - counted[figures.RECEIVED] == 8 * asked + row * asks + row * asked
    table.change(ids, feed[table.weights])
    directly = sum(int((one % ranks // hosts.local != number // hosts.local).sum())
                   for number, one in enumerate(distinct))
    left = comm.allreduce(far_asks)
    assert left <= directly, (left, directly)
    return left, directly


def refused(session, fetches, feed, kind, *words):
    try:
        session.run(fetches, feed)
    except kind as error:
        assert all(word in error.message for word in words), error.message
    else:
        raise AssertionError("nothing was refused")


def main():
    seed = int(sys.argv[1])
    random, alike = np.random.RandomState([seed, comm.rank]), np.random.RandomState(seed)
    sok.init()
    anything = np.concatenate([[-2 ** 63, 2 ** 63 - 1, 0, -1, -2, -3],
                               1 + np.arange(KEYS - 6) * alike.randint(1, 2 ** 57)])
    rows = -(-KEYS // comm.size)
    tables = [Table("dense", 5, anything, max_vocabulary_size_per_gpu=KEYS),
              Table("dense", 3, alike.permutation(KEYS), max_vocabulary_size_per_gpu=rows, use_hashtable=False),
              Table("dense", 4, alike.permutation(anything), "float16", max_vocabulary_size_per_gpu=None,
                    embedding_initializer="ones", init_capacity=2),
              Table("sum", 6, anything, max_vocabulary_size_per_gpu=KEYS),
              Table("mean", 2, alike.permutation(KEYS), max_vocabulary_size_per_gpu=KEYS)]
    small = Table("dense", 2, np.arange(KEYS) * comm.size, max_vocabulary_size_per_gpu=4)
    of_one_rank = OfOneRank()
    optimizer, variables = tf.train.GradientDescentOptimizer(1.0), [table.layer.embedding_variable for table in tables]
    losses = tf.add_n([table.loss for table in tables]) + tf.reduce_sum(of_one_rank.out)
    gradients = tf.gradients(losses, variables + [of_one_rank.variable])
    with sok.OptimizerScope(variables + [of_one_rank.variable]):
        train_all = optimizer.apply_gradients(zip(gradients, variables + [of_one_rank.variable]))
        train_first = optimizer.apply_gradients(zip(tf.gradients(tables[0].loss, variables[:1]), variables[:1]))
    with tf.Session(config=tf.ConfigProto(intra_op_parallelism_threads=1)) as session:
        session.run(tf.global_variables_initializer())

        def check():
            for table in tables:
                np.testing.assert_array_equal(read(table, session), table.rows)

        for table in tables:
            table.rows = read(table, session)
        for step in range(STEPS):
            train(random, tables, of_one_rank, session, train_all, step)
        check()
        for first in 0, KEYS - 36:  # now every key has a row
            every = np.arange(first, first + 36).reshape(-1, S, H)
            session.run([tables[0].out, train_first], tables[0].feed(every, np.zeros([6, S, H, 5])))
        check_bytes(random, tables[0], session, train_first)  # by C++, unless it has to wait
        op_functions.Library(bridge.PATH).lane_allow(False)
        far, directly = check_bytes(random, tables[0], session, train_first)  # as a group of Python's
        check()

        ids = np.zeros([1, S, H], np.int64)
        wrong = {tables[1].fed: ids + (rows * comm.size if comm.rank == 1 else 0)}
        refused(session, tables[1].out, wrong, tf.errors.InvalidArgumentError, str(rows * comm.size), "rank 1")
        # One owner's shard is full: nobody's has changed.
        few, many = np.arange(3).repeat(2).reshape(1, S, H), np.arange(6).reshape(1, S, H)
        before = session.run(small.out, small.feed(few))
        refused(session, small.out, small.feed(many if comm.rank == 2 else few), tf.errors.ResourceExhaustedError,
                "rank 0", "4")
        np.testing.assert_array_equal(session.run(small.out, small.feed(few)), before)
        check()
    print("rank {} ok: of keys that host's ranks ask others for, {} of {} left it\n".format(
        comm.rank, far, directly), end="")


if __name__ == "__main__":
    main()

"""Tables that grow, forget and admit, followed through random operations by a model in NumPy, on any number of ranks.

    mpiexec -np N python program_forgetting.py SEED OPERATIONS [COPIES]

An operation is a training step of one table, an evaluation, an assignment, or one of these that must fail. A
session.run has one of each table; but one that might fail runs by itself, for nobody knows how far the others got where
one fails. COPIES: tables of each description, of different sizes.
"""
import os
import sys
import time

import numpy as np
import tensorflow.compat.v1 as tf

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "cuda_kernels"))
from forgetting_model import Ranks, Shard, TooFew  # noqa: E402

import sok1x as sok  # noqa: E402
from sok1x.core.embedding_variable import EmbeddingVariable  # noqa: E402
from sok1x.graph_ops.operations import embedding  # noqa: E402

tf.logging.set_verbosity(tf.logging.ERROR)
DIM, RATE, JOB_SEED = 3, np.float32(0.25), 20240611


def momentum(value, slot, gradient):
    slot = slot * np.float32(0.5) + gradient
    return value - slot * RATE, slot


def adagrad(value, slot, gradient):
    slot = slot + gradient * gradient
    return value - RATE * gradient / np.sqrt(slot), slot


class Table:
    """One table in the graph, and the model of all its shards."""

    def __init__(self, seed, ranks, bags=None, filtered=False, adagrads=False, **options):
        self.shard = EmbeddingVariable(rows=None, dim=DIM, initializer="uniform", **options)
        self.filtered, self.bags = filtered, bags
        self.update, begins, name = (adagrad, 0.75, "accumulator") if adagrads else (momentum, 0.0, "momentum")
        optimizer = tf.train.AdagradOptimizer(float(RATE), begins) if adagrads else tf.train.MomentumOptimizer(
            float(RATE), 0.5)
        self.keys, self.weights = tf.placeholder(tf.int64, [None]), tf.placeholder(tf.float32, [None, DIM])
        self.rows, self.evaluated = self.look_up(True), self.look_up(False)
        with tf.control_dependencies([self.rows]):
            self.found = tf.identity(self.rows)
        self.step = optimizer.minimize(tf.reduce_sum(self.rows * self.weights), var_list=[self.shard])
        self.assigned = tf.placeholder(tf.float32, [None, DIM])
        self.assign = sok.assign(self.shard, self.keys, self.assigned)
        self.state = dict(self.shard.forgetting, rows=self.shard, slot=optimizer.get_slot(self.shard, name),
                          index=self.shard.index[0], count=self.shard.index[1], stamps=self.shard.stamps,
                          clock=self.shard.steps)
        # What evaluations leave for a gradient is nothing: their rows may leave meanwhile.
        self.of_evaluation = tf.gradients(tf.reduce_sum(self.evaluated), self.shard)[0].indices
        self.model = Ranks(lambda: Shard(self.shard.table, begins, seed), ranks)

    def look_up(self, training):
        if self.bags is None:
            return embedding.lookup_dense(self.shard.table_variables, self.keys, training, filtered=self.filtered)
        count = tf.size(self.keys, out_type=tf.int64)
        indices = tf.stack([tf.range(count), tf.zeros([count], tf.int64)], 1)
        pairs = tf.SparseTensor(indices, self.keys, tf.stack([count, 1]))
        return tf.squeeze(embedding.lookup_combined(self.shard.table_variables, pairs, 1, 1, "sum", training, self.bags,
                                                    filtered=self.filtered), 1)

    @property
    def exact(self):
        return self.update is momentum

    def equal(self, got, expected):
        """Compares rows float32 [K, D]."""
        if self.exact:
            assert got.tobytes() == expected.tobytes(), (got, expected)
        else:
            np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


TRAIN, EVALUATE, ASSIGN = range(3)
PATTERNS = 8  # of what is done to which table in one session.run


def tables(seed, ranks, scale):
    """A table of each description, `scale` times as large as the smallest: few rows leave at a time, or many."""
    made = [Table(seed, ranks, evict_strategy="lru", init_capacity=4, max_capacity=20 * scale),
            Table(seed, ranks, evict_strategy="kLFU", init_capacity=16 * scale, max_capacity=16 * scale, adagrads=True,
                  bags="all2all"),
            Table(seed, ranks, evict_strategy="ttl", time_to_live=12, init_capacity=3, max_capacity=33 * scale,
                  remember_evicted=0),
            Table(seed, ranks, evict_strategy="lru", init_capacity=5, max_capacity=24 * scale, filter_ratio=0.4,
                  filtered=True),
            Table(seed, ranks, evict_strategy="lfu", max_capacity=18 * scale, admit_after=3,
                  admission_counters=1 << 16, remember_evicted=5, bags="reduce_scatter"),
            Table(seed, ranks, evict_strategy="lru", init_capacity=16, max_capacity=160 * scale, remember_evicted=9)]
    for number, table in enumerate(made):  # keys that hash anywhere; some tables are asked for more than they can hold
        table.spread = (70, 60, 50, 90, 80, 400)[number] * ranks * scale
        table.offset = (0, -40, 2 ** 40, 5, 0, -1000)[number]
    return made


class Run:
    """All operations. Every rank draws all ranks' batches."""

    def __init__(self, session, made, random, rank, ranks):
        self.session, self.tables, self.random, self.rank, self.ranks = session, made, random, rank, ranks
        self.failed = self.steps = self.operations = 0
        # Few, so that TensorFlow prunes few graphs.
        self.patterns = random.choice([TRAIN, EVALUATE, ASSIGN], (PATTERNS, len(made)), p=[0.75, 0.15, 0.1])

    def batches(self, table, kind):
        """Keys of every rank: near ones often, so that some are asked for again and again."""
        counts = self.random.randint(0, 6 if kind == ASSIGN else 12, self.ranks)
        return [(table.offset + (table.spread * self.random.random_sample(count) ** 2).astype(np.int64)).tolist()
                for count in counts]

    def run(self):
        """One session.run of all tables, and one each of those that might fail."""
        first, later = [], []
        for table, kind in zip(self.tables, self.patterns[self.random.randint(PATTERNS)].tolist()):
            batches = self.batches(table, kind)
            if kind != EVALUATE and not table.model.certainly_fits(self.looked_up(kind, batches)):
                later.append((table, kind, batches))
                batches = [[] for _ in batches]
            first.append((table, kind, batches))
        self.together(first)
        for one in later:
            self.together([one])
        self.operations += len(first)
        if later or self.random.random_sample() < 0.2:
            self.check()

    def looked_up(self, kind, batches):
        """The keys of every rank that a training lookup has, or an assignment: there each rank writes its own keys."""
        if kind == TRAIN:
            return batches
        return [[key for key in batch if key % self.ranks == owner] for owner, batch in enumerate(batches)]

    def together(self, chosen):
        """Runs operations [(table, kind, batches)] in one session.run, and has the models do the same."""
        fetches, feed, expected, changes, fails = [], {}, [], [], False
        for table, kind, batches in chosen:
            given = [self.random.randint(-4, 5, (len(batch), DIM)).astype(np.float32) for batch in batches]
            feed[table.keys] = batches[self.rank]
            if kind == EVALUATE:
                fetches.append([table.evaluated, table.of_evaluation])
            elif kind == TRAIN:
                fetches.append([table.found, table.step])
                feed[table.weights] = given[self.rank]
            else:
                fetches.append([table.assign])
                feed[table.assigned] = given[self.rank]
            try:
                if kind != EVALUATE:
                    table.model.look_up(self.looked_up(kind, batches), table.filtered if kind == TRAIN else None)
            except TooFew:
                fails = True
            changes.append(given)
            expected.append(None if fails or kind == ASSIGN else table.model.read(batches[self.rank]).reshape(-1, DIM))
        assert not fails or len(chosen) == 1
        if fails:
            self.fails(lambda: self.session.run(fetches, feed))
            return
        for (table, kind, _), got, values in zip(chosen, self.session.run(fetches, feed), expected):
            if values is not None:
                table.equal(got[0], values)
            if kind == EVALUATE:
                assert len(got[1]) == 0, got[1]
        for (table, kind, batches), given in zip(chosen, changes):
            self.change(table, kind, batches, given)
        self.steps += 1

    def fails(self, run):
        try:
            run()
        except tf.errors.ResourceExhaustedError as error:
            assert "max_capacity" in str(error) and "pinned" in str(error), str(error)
            self.failed += 1
        else:
            raise AssertionError("no error")

    def change(self, table, kind, batches, given):
        """What follows a lookup: a gradient, though of no row where it was an evaluation, or values."""
        if kind == TRAIN:
            table.model.train(batches, given, table.update)
            return
        for owner, shard in enumerate(table.model.shards):
            shard.clock += 1
            for key, value in zip(batches[owner], given[owner]) if kind == ASSIGN else ():
                if key % self.ranks == owner:
                    shard.values[shard.rows[key]] = value
                    shard.stamp[shard.rows[key]] = shard.clock

    def check(self):
        for table, got in zip(self.tables, self.session.run([table.state for table in self.tables])):
            table.model.shards[self.rank].check(got, table.exact)


def main(seed, operations, copies=1):
    sok.init(seed=JOB_SEED)
    rank, ranks = sok.communication.rank(), sok.communication.num_ranks()
    began = time.time()
    with tf.Graph().as_default(), tf.Session() as session:
        made = [table for copy in range(copies) for table in tables(JOB_SEED, ranks, 1 + copy)]
        session.run(tf.global_variables_initializer())
        run = Run(session, made, np.random.RandomState(seed), rank, ranks)
        while run.operations < operations:
            try:
                run.run()
            except Exception:
                print("seed {}, operation {}, rank {}".format(seed, run.operations, rank), file=sys.stderr)
                raise
        run.check()
        evicted = [len(table.model.shards[rank].evicted) for table in made]
        assert operations < 500 or max(evicted) > 20, evicted
        assert operations < 10000 or run.failed
        assert operations < 10000 or min(evicted) > 0, evicted
        print("followed {} operations; {} runs, {} failed; left: {}; {:.0f} s".format(
            run.operations, run.steps, run.failed, evicted, time.time() - began), flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

"""Tables that grow, forget and admit, followed through random operations by a model in NumPy, on any number of ranks.

    mpiexec -np N python program_forgetting.py SEED OPERATIONS

An operation is a training step of one table or of all, an evaluation, an assignment, or a step that must fail.
"""
import os
import sys

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


def tables(seed, ranks):
    made = [Table(seed, ranks, evict_strategy="lru", init_capacity=4, max_capacity=20),
            Table(seed, ranks, evict_strategy="kLFU", init_capacity=16, max_capacity=16, adagrads=True, bags="all2all"),
            Table(seed, ranks, evict_strategy="ttl", time_to_live=12, init_capacity=3, max_capacity=33,
                  remember_evicted=0),
            Table(seed, ranks, evict_strategy="lru", init_capacity=5, max_capacity=24, filter_ratio=0.4, filtered=True),
            Table(seed, ranks, evict_strategy="lfu", max_capacity=18, admit_after=3, admission_counters=1 << 16,
                  remember_evicted=5, bags="reduce_scatter")]
    for number, table in enumerate(made):  # keys that hash anywhere; some tables are asked for more than they can hold
        table.spread, table.offset = (70, 60, 50, 90, 80)[number] * ranks, (0, -40, 2 ** 40, 5, 0)[number]
    return made


class Run:
    """All operations. Every rank draws all ranks' batches."""

    def __init__(self, session, made, random, rank, ranks):
        self.session, self.tables, self.random, self.rank, self.ranks = session, made, random, rank, ranks
        self.failed = self.steps = 0

    def batches(self, table, most):
        """Keys of every rank: near ones often, so that some are asked for again and again."""
        counts = self.random.randint(0, most, self.ranks)
        return [(table.offset + (table.spread * self.random.random_sample(count) ** 2).astype(np.int64)).tolist()
                for count in counts]

    def train(self, chosen):
        given = [(table, self.batches(table, 12)) for table in chosen]
        if len(given) > 1 and not all(table.model.would_fit(batches, table.filtered) for table, batches in given):
            given = given[:1]  # where one table fails nobody knows how far the others got
        feed, expected = {}, {}
        weights = [[self.random.randint(-4, 5, (len(batch), DIM)).astype(np.float32) for batch in batches]
                   for _, batches in given]
        for (table, batches), gradients in zip(given, weights):
            feed.update({table.keys: batches[self.rank], table.weights: gradients[self.rank]})
        fetches = [[table.step, table.found] for table, _ in given]
        try:
            for table, batches in given:
                table.model.look_up(batches, table.filtered)
                expected[table] = table.model.read(batches[self.rank]).reshape(-1, DIM)
        except TooFew:
            self.fails(lambda: self.session.run(fetches, feed))
            return
        for (_, found), (table, batches) in zip(self.session.run(fetches, feed), given):
            if table.exact:
                assert found.tobytes() == expected[table].tobytes()
            else:
                np.testing.assert_allclose(found, expected[table], rtol=1e-4, atol=1e-5)
        for (table, batches), gradients in zip(given, weights):
            table.model.train(batches, gradients, table.update)
        self.steps += 1

    def fails(self, run):
        try:
            run()
        except tf.errors.ResourceExhaustedError as error:
            assert "max_capacity" in str(error) and "pinned" in str(error), str(error)
            self.failed += 1
        else:
            raise AssertionError("no error")

    def evaluate(self, table):
        batches = self.batches(table, 12)
        found, rows = self.session.run([table.evaluated, table.of_evaluation], {table.keys: batches[self.rank]})
        expected = table.model.read(batches[self.rank]).reshape(-1, DIM)
        np.testing.assert_allclose(found, expected, rtol=1e-4 * (not table.exact), atol=1e-5 * (not table.exact))
        assert len(rows) == 0, rows
        for shard in table.model.shards:
            shard.clock += 1  # that of a gradient, though of no row

    def assign(self, table):
        batches = self.batches(table, 6)
        values = [self.random.normal(size=(len(batch), DIM)).astype(np.float32) for batch in batches]
        feed = {table.keys: batches[self.rank], table.assigned: values[self.rank]}
        try:
            self._assign(table, batches, values)
        except TooFew:
            self.fails(lambda: self.session.run(table.assign, feed))
            return
        self.session.run(table.assign, feed)

    def _assign(self, table, batches, values):
        """Every rank writes those of its own keys that it is given itself."""
        prepared = []
        failed = False
        for owner, shard in enumerate(table.model.shards):
            mine = [key for key in dict.fromkeys(batches[owner]) if key % self.ranks == owner]
            try:
                prepared.append(shard.prepare(mine, None))
            except TooFew:
                failed = True
        if failed:
            raise TooFew
        for owner, (shard, one) in enumerate(zip(table.model.shards, prepared)):
            shard.commit(one)
            shard.clock += 1
            for key, value in zip(batches[owner], values[owner]):
                if key % self.ranks == owner:
                    shard.values[shard.rows[key]] = value
                    shard.stamp[shard.rows[key]] = shard.clock

    def check(self, chosen):
        for table, got in zip(chosen, self.session.run([table.state for table in chosen])):
            table.model.shards[self.rank].check(got, table.exact)

    def operation(self):
        kind = self.random.random_sample()
        table = self.tables[self.random.randint(len(self.tables))]
        if kind < 0.3:
            chosen = [self.tables[i] for i in self.random.permutation(len(self.tables))]
            self.train(chosen)
        elif kind < 0.8:
            chosen = [table]
            self.train(chosen)
        else:
            chosen = [table]
            (self.evaluate if kind < 0.92 else self.assign)(table)
        self.check(chosen)


def main(seed, operations):
    sok.init(seed=JOB_SEED)
    rank, ranks = sok.communication.rank(), sok.communication.num_ranks()
    with tf.Graph().as_default(), tf.Session() as session:
        made = tables(JOB_SEED, ranks)
        session.run(tf.global_variables_initializer())
        run = Run(session, made, np.random.RandomState(seed), rank, ranks)
        for number in range(operations):
            try:
                run.operation()
            except Exception:
                print("seed {}, operation {}, rank {}".format(seed, number, rank), file=sys.stderr)
                raise
        evicted = [len(table.model.shards[rank].evicted) for table in made]
        assert run.failed and max(evicted) > 20, (run.failed, evicted)
        assert operations < 200 or min(evicted) > 0, evicted
        print("followed", operations, "operations;", run.steps, "steps,", run.failed, "failed; left:", evicted,
              flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))

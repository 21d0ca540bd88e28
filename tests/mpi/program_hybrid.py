"""Tables in host memory with a cache that is too small for them.

    [mpiexec -np N] python program_hybrid.py SEED FOLDER

Tables for each optimizer, trained twice with the same batches: all rows in their variables, and with a cache. What
lookups, evaluations and exports give is compared bit for bit. A model in dicts says which keys are in the cache, which
rows they have, and which leave the table. Checkpoints go onto other caches, and onto tables without one. And memory
ends, wherever it is asked for. Rows leave the cache one by one, as in host memory, or gathered, as on a GPU.
"""
import contextlib
import os
import sys

import numpy as np
import tensorflow.compat.v1 as tf
from hybrid_followed import a_model_follows
from hybrid_memory_ends import memory_ends
from stock_lazy_adam import LazyAdamOptimizer

import sok1x as sok
from sok1x import launch
from sok1x.graph_ops.stores import host_column, host_pieces, lean_rows, staged_crossing

tf.logging.set_verbosity(tf.logging.ERROR)
host_pieces.PIECE_BYTES = 300  # so that an optimizer that moves every row does so in several pieces
host_column._FEW = 4  # on a GPU more rows than these are sorted, as a large batch's are
STEPS, BATCH, CACHE, KEYS = 9, 24, 30, 60
train, keras = tf.train, tf.keras.optimizers
OPTIMIZERS = [
    lambda: train.GradientDescentOptimizer(0.1), lambda: sok.optimizers.Adam(0.1),
    lambda: sok.tf.keras.optimizers.LazyAdamOptimizer(0.1), lambda: train.MomentumOptimizer(0.1, 0.9),
    lambda: keras.SGD(0.1, 0.9), lambda: sok.OptimizerWrapper(train.AdagradOptimizer(0.1))]


def of_ranks():
    """All on one rank; on several some."""
    return OPTIMIZERS if launch.current().size == 1 else OPTIMIZERS[:5]


class Model:
    """Tables for each optimizer, one looked up by key and one by bag.

    cached: whether they have caches.
    """

    def __init__(self, cached):
        self.tables, self.trained, self.evaluated, self.steps = [], [], [], []
        self.keys = tf.placeholder(tf.int64, [None])
        initializers = []
        for number, make in enumerate(of_ranks()):
            for by_bag in (False, True) if number < 3 else (number % 2 == 0,):
                options = dict(cache_rows=CACHE) if cached else {}
                table = sok.DynamicVariable(3 + number, "uniform", name="t{}{}".format(number, by_bag), **options)
                for training, outputs in ((True, self.trained), (False, self.evaluated)):
                    outputs.append(self.look_up(table, self.keys + number, by_bag, training))
                optimizer = make()
                gradient, = tf.gradients(tf.reduce_sum(self.trained[-1] ** 2 * tf.range(1.0, 4.0 + number)), table)
                self.steps.append(optimizer.apply_gradients([(gradient, table)]))
                initializers.append(getattr(optimizer, "initializer", tf.no_op()))
                self.tables.append(table)
        self.initial = tf.global_variables_initializer()
        self.exports = [sok.export(table) for table in self.tables]
        self.dumps = [sok.incremental_dump(table, STEPS // 2) for table in self.tables]
        self.more = initializers

    @staticmethod
    def look_up(table, keys, by_bag, training):
        from sok1x.graph_ops.operations import embedding
        if not by_bag:
            return embedding.lookup_dense(table.table_variables, keys, training)
        indices = tf.stack([tf.range(BATCH, dtype=tf.int64) // 5, tf.range(BATCH, dtype=tf.int64) % 5], 1)
        pairs = tf.SparseTensor(indices, keys, [6, 5])
        return tf.squeeze(embedding.lookup_combined(table.table_variables, pairs, 1, 5, "sum", training, "auto"), 1)


def follow(cached, seed):
    """What every run gives, and the exports at the end."""
    world, seen = launch.current(), []
    random = np.random.RandomState(seed + world.rank)
    with tf.Graph().as_default(), tf.Session() as session:
        model = Model(cached)
        session.run(model.initial)
        session.run(model.more)
        for _ in range(STEPS):
            # As many keys of each shard in every batch: all ranks' together are at most BATCH, which the cache holds.
            keys = random.randint(-KEYS // world.size, KEYS // world.size, BATCH) * world.size
            keys = random.permutation(keys + np.arange(BATCH) % world.size)
            keys *= 1 + 2 ** 40 * random.randint(0, 2, BATCH)
            seen.append(session.run([model.trained, model.steps], {model.keys: keys})[0])
            seen.append(session.run(model.evaluated, {model.keys: keys + random.randint(0, 2, BATCH)}))
        for keys, values in session.run(model.exports) + session.run(model.dumps):
            order = keys.argsort()
            seen.append([keys[order], values[order]])
        seen.append(session.run([table.size for table in model.tables]))
        if cached:
            for table, size in zip(model.tables, seen[-1]):
                stats = session.run(sok.table_stats(table))
                assert stats.hits and stats.misses and stats.write_backs and stats.host_bytes, stats
                assert stats.capacity == CACHE < stats.rows_in_use == size[0], stats
    return seen


@contextlib.contextmanager
def gathered(staging_bytes, piece_bytes):
    """Inside, rows that leave are gathered in host memory too, and move by pieces of so many bytes."""
    where = staged_crossing
    stock = where.is_staged, where.STAGING_BYTES, where.PIECE_BYTES
    where.is_staged, where.STAGING_BYTES, where.PIECE_BYTES = lambda _: True, staging_bytes, piece_bytes
    yield
    where.is_staged, where.STAGING_BYTES, where.PIECE_BYTES = stock


@contextlib.contextmanager
def all_lean():
    """As `gathered`, and rows come without their slots, which follow with the gradient."""
    with gathered(400, 100), lean_rows_from(0):
        yield


@contextlib.contextmanager
def lean_rows_from(runs):
    """Inside, rows come lean when so many runs have changed nothing."""
    stock, lean_rows.RUNS = lean_rows.RUNS, runs
    yield
    lean_rows.RUNS = stock


def same_bits(seed):
    expected, ways = follow(False, seed), [contextlib.nullcontext()]
    if launch.current().size == 1:
        ways += [gathered(400, 100), all_lean()]
    for way in ways:
        with way:
            for number, (one, other) in enumerate(zip(expected, follow(True, seed))):
                for place, (wanted, got) in enumerate(zip(one, other)):
                    np.testing.assert_array_equal(got, wanted, err_msg="run {}, table {}".format(number, place))


def checkpoints(seed, folder):
    """From each kind of table onto each other; training goes on as if nothing had been saved."""
    world = launch.current()
    kinds = [dict(cache_rows=20, cache_strategy="lfu"), dict(cache_rows=33, max_capacity=900), dict(var_type="hbm"),
             dict(max_capacity=900)]
    kinds = kinds if world.size == 1 else kinds[::2]

    def session_of(kind, work):
        with tf.Graph().as_default(), tf.Session() as session:
            table = sok.DynamicVariable(4, "uniform", name="t", **kind)
            keys = tf.placeholder(tf.int64, [None])
            rows = sok.all2all_dense_embedding(table, keys)
            gradient, = tf.gradients(tf.reduce_sum(rows * rows), table)
            step = LazyAdamOptimizer(0.1).apply_gradients([(gradient, table)])
            manager = sok.CheckpointManager(folder)
            session.run(tf.global_variables_initializer())
            exported = sok.export(table)

            def run(*steps):
                for number in steps:
                    random = np.random.RandomState([seed, world.rank, number])
                    session.run(step, {keys: random.randint(0, 90, 12)})
                found = session.run(exported)
                order = found[0].argsort()
                return [part[order] for part in found]

            return work(session, manager, run)

    def begin(session, manager, run):
        run(*range(8))
        manager.save(session, step=1)
        return run(*range(10, 16))

    expected = session_of(kinds[0], begin)
    for number, kind in enumerate(kinds[1:] + kinds[:1]):
        def go_on(session, manager, run):
            run(*range(20, 28))  # which is forgotten
            manager.restore(session, step=number + 1)
            manager.save(session, step=number + 2)
            run(*range(30, 33))
            manager.restore(session, step=number + 2)
            np.save("{}_{}.npy".format(folder, world.rank), np.column_stack(run()))
            return run(*range(10, 16))

        for got, wanted in zip(session_of(kind, go_on), expected):
            np.testing.assert_array_equal(got, wanted, err_msg=str(kind))


def main(seed, folder):
    sok.init(seed=seed)
    same_bits(seed)
    alone = launch.current().size == 1
    with contextlib.nullcontext() if alone else gathered(100, 50):
        a_model_follows(seed)
    with gathered(200, 60):
        checkpoints(seed, os.path.join(folder, "saved"))
        for runs in (10 ** 9, 0):
            with lean_rows_from(runs):
                memory_ends()
    print("rank {} ok".format(launch.current().rank))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])

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
from hybrid_model import Shard, TooFew
from stock_lazy_adam import LazyAdamOptimizer

import sok1x as sok
from sok1x import launch
from sok1x.graph_ops.bridge import bridge, growing
from sok1x.graph_ops.bridge.errors import RESOURCE_EXHAUSTED, CallError
from sok1x.graph_ops.stores import cache, host_column, host_pieces, host_tier, staged_crossing
from sok1x.graph_ops.stores.cached_store import CachedStore

tf.logging.set_verbosity(tf.logging.ERROR)
host_pieces.PIECE_BYTES = 300  # so that an optimizer that moves every row does so in several pieces
host_column._FEW = 4  # on a GPU more rows than these are sorted, as a large batch's are
STEPS, BATCH, CACHE, KEYS, RATE = 9, 24, 30, 60, 0.25
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


def same_bits(seed):
    expected, ways = follow(False, seed), [contextlib.nullcontext()]
    if launch.current().size == 1:
        ways.append(gathered(400, 100))
    for way in ways:
        with way:
            for number, (one, other) in enumerate(zip(expected, follow(True, seed))):
                for place, (wanted, got) in enumerate(zip(one, other)):
                    np.testing.assert_array_equal(got, wanted, err_msg="run {}, table {}".format(number, place))


class Followed:
    """A table that a model follows: Momentum's steps by weights that are small integers, so that sums are exact."""

    def __init__(self, world, **options):
        self.world = world
        self.table = sok.DynamicVariable(2, "0.5", cache_rows=24, **options)
        self.keys, self.weights = tf.placeholder(tf.int64, [None]), tf.placeholder(tf.float32, [None, 2])
        self.rows = sok.all2all_dense_embedding(self.table, self.keys)
        optimizer = train.MomentumOptimizer(RATE, 0.5)
        self.step = optimizer.apply_gradients([(tf.gradients(tf.reduce_sum(self.rows * self.weights), self.table)[0],
                                                self.table)])
        self.state = dict(self.table.forgetting, index=self.table.index[0], count=self.table.index[1])
        self.known = sok.export(self.table)
        self.shards = [Shard(24, options.get("max_capacity"), options.get("evict_strategy", "lru"),
                             options.get("cache_strategy"))
                       for _ in range(world.size)]
        self.values, self.slots = {}, {}

    def received(self, batches, rank):
        """Distinct keys of `rank`, in the order in which they are seen there."""
        size = self.world.size
        return list(dict.fromkeys(int(key) for batch in batches for key in batch if key % size == rank))

    def run(self, session, batches, weights):
        rank = self.world.rank
        plans, too_few = [], False
        for shard, keys in ((shard, self.received(batches, owner)) for owner, shard in enumerate(self.shards)):
            try:
                plans.append(shard.look_up(keys))
            except TooFew:
                too_few = True
        feeds = {self.keys: batches[rank], self.weights: weights[rank]}
        if too_few:
            try:
                session.run(self.step, feeds)
            except tf.errors.ResourceExhaustedError as error:
                assert "no row was changed" in error.message, error.message
            else:
                raise AssertionError("a batch that does not fit")
            return
        for shard, plan in zip(self.shards, plans):
            shard.commit(*plan)
            for key in plan[3] + plan[1]:
                self.values.pop(key, None)
                self.slots.pop(key, None)
        rows, _ = session.run([self.rows, self.step], feeds)
        expected = [self.values.get(int(key), np.full(2, 0.5, np.float32)) for key in batches[rank]]
        np.testing.assert_array_equal(rows, np.array(expected, np.float32).reshape(rows.shape))
        sums = {}
        for batch, weight in zip(batches, weights):
            for key, one in zip(batch.tolist(), weight):
                sums[key] = sums.get(key, 0) + one
        for key, total in sums.items():
            self.slots[key] = self.slots.get(key, np.zeros(2, np.float32)) * np.float32(0.5) + total
            self.values[key] = self.values.get(key, np.full(2, 0.5, np.float32)) - np.float32(RATE) * self.slots[key]

    def compare(self, session):
        state, shard = session.run(self.state), self.shards[self.world.rank]
        for name, expected in (("index", shard.rows), ("every", shard.homes)):
            assert {key: row for key, row in state[name].tolist() if row >= 0} == expected, name
        for key, row in shard.rows.items():
            assert state["used"][row] == shard.used[row] and state["home"][row] == shard.homes[key], key
            assert "frequency" not in state or state["frequency"][row] == shard.frequency[row], key
        numbers = state["tiers"]
        assert [numbers[place] for place in (cache.HITS, cache.MISSES, cache.NEW, cache.PUSHED)] == shard.numbers
        assert (numbers[cache.GIVEN], numbers[cache.FREE]) == (shard.there, len(shard.vacant))
        keys, values = session.run(self.known)
        mine = {key: value for key, value in self.values.items() if key % self.world.size == self.world.rank}
        assert sorted(keys.tolist()) == sorted(mine)
        np.testing.assert_array_equal(values, [mine[key] for key in keys.tolist()])
        if self.shards[0].most is not None:
            gone, _ = sok.evicted_keys(self.table, -1, session)
            assert set(gone.tolist()) == {key for key in shard.evicted if key not in shard.homes}


def a_model_follows(seed):
    world, random = launch.current(), np.random.RandomState(seed)
    with tf.Graph().as_default(), tf.Session() as session:
        followed = [Followed(world, cache_strategy="lfu"), Followed(world, max_capacity=70, remember_evicted=5000),
                    Followed(world, max_capacity=64, evict_strategy="lfu", cache_strategy="lru", remember_evicted=5000)]
        session.run(tf.global_variables_initializer())
        for step in range(40):
            for one in followed:
                most = random.choice([3, 8, 16, 40 if step % 8 == 5 else 16])
                batches = [(random.rand(random.randint(most + 1)) ** 2 * 150 * world.size).astype(np.int64)
                           for _ in range(world.size)]
                weights = [random.randint(-3, 4, (len(batch), 2)).astype(np.float32) for batch in batches]
                one.run(session, batches, weights)
                if step % 10 == 9:
                    one.compare(session)
        assert all(shard.evicted for one in followed[1:] for shard in one.shards)


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


def memory_ends():
    """Every allocation fails in turn, on one rank: all ranks hear of it, no row has changed, and later it goes well."""
    world = launch.current()
    left, inside = [None], [False]
    stock = growing.Reached.larger, host_tier.HostTier._grow, bridge.Request.memory
    stock_plan = CachedStore._plan

    def scarce(place, error):
        def call(self, *arguments, **how):
            if left[0] is not None and inside[0]:
                left[0] -= 1
                if left[0] == -1:
                    raise error
            return stock[place](self, *arguments, **how)
        return call

    def plan(self, *arguments):
        inside[0] = True
        try:
            return stock_plan(self, *arguments)
        finally:
            inside[0] = False

    with tf.Graph().as_default(), tf.Session() as session:
        table = sok.DynamicVariable(3, "uniform", name="t", cache_rows=16, max_capacity=64)
        keys = tf.placeholder(tf.int64, [None])
        rows = sok.all2all_dense_embedding(table, keys)
        gradient, = tf.gradients(tf.reduce_sum(rows * rows), table)
        step = train.MomentumOptimizer(0.1, 0.9).apply_gradients([(gradient, table)])
        known, size = sok.export(table), world.size
        session.run(tf.global_variables_initializer())
        for first in range(0, 60, 10):
            session.run(step, {keys: range(size * first, size * (first + 10))})
        values = {one.op.name: one.value() for one in tf.global_variables()
                  if not one.op.name.endswith(("/counters", "/used", "/tiers"))}
        # New keys, for which others leave the cache, and the table.
        batch, failed = range(size * 57, size * 70), 0
        for number in range(0, 200, 1 if size == 1 else 5):
            state, exported = session.run(values), session.run(known)
            no_memory = CallError(RESOURCE_EXHAUSTED, "no memory")
            growing.Reached.larger, host_tier.HostTier._grow, bridge.Request.memory = [
                scarce(place, error) for place, error in enumerate((no_memory, OSError(12, "no memory"), no_memory))]
            left[0], CachedStore._plan = number if world.rank == 0 else None, plan
            try:
                session.run(rows, {keys: batch})
            except tf.errors.ResourceExhaustedError:
                failed += 1
            else:
                if world.rank == 0 and left[0] < 0:
                    raise AssertionError("allocation {} went well".format(number))
                break
            finally:
                growing.Reached.larger, host_tier.HostTier._grow, bridge.Request.memory = stock
                CachedStore._plan = stock_plan
            for name, now in session.run(values).items():
                np.testing.assert_array_equal(now, state[name], err_msg="{} {}".format(name, number))
            for one, other in zip(session.run(known), exported):
                np.testing.assert_array_equal(one, other)
        assert failed > (20 if size == 1 else 4), failed
        try:
            session.run(step, {keys: range(size * 200, size * 217)})
        except tf.errors.ResourceExhaustedError as error:
            assert "its cache has 16 rows, too few" in error.message and "17 more keys" in error.message, error.message
        else:
            raise AssertionError("a batch that is larger than the cache")
        available, host_tier.available = host_tier.available, lambda: 1000
        try:
            big = sok.DynamicVariable(1 << 14, "uniform", name="big", cache_rows=4)
            looked_up = sok.all2all_dense_embedding(big, keys)
            session.run([variable.initializer for variable in tf.global_variables() if "big" in variable.name])
            session.run(looked_up, {keys: range(size)})
        except tf.errors.ResourceExhaustedError as error:
            for words in ("embedding table 'big' on rank 0", "1000 bytes of memory are left", "no row was changed"):
                assert words in error.message, error.message
        else:
            raise AssertionError("no memory")
        finally:
            host_tier.available = available


def main(seed, folder):
    sok.init(seed=seed)
    same_bits(seed)
    alone = launch.current().size == 1
    with contextlib.nullcontext() if alone else gathered(100, 50):
        a_model_follows(seed)
    with gathered(200, 60):
        checkpoints(seed, os.path.join(folder, "saved"))
        memory_ends()
    print("rank {} ok".format(launch.current().rank))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])

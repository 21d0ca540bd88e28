"""Tables in host memory with caches, and a model in dicts that follows them key by key: program_hybrid.py runs it."""
import numpy as np
import tensorflow.compat.v1 as tf
from hybrid_model import Shard, TooFew

import sok1x as sok
from sok1x import launch
from sok1x.graph_ops.stores import cache

RATE = 0.25


class Followed:
    """A table that a model follows: Momentum's steps by weights that are small integers, so that sums are exact."""

    def __init__(self, world, **options):
        self.world = world
        self.table = sok.DynamicVariable(2, "0.5", cache_rows=24, **options)
        self.keys, self.weights = tf.placeholder(tf.int64, [None]), tf.placeholder(tf.float32, [None, 2])
        self.rows = sok.all2all_dense_embedding(self.table, self.keys)
        optimizer = tf.train.MomentumOptimizer(RATE, 0.5)
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
                    Followed(world, max_capacity=64, evict_strategy="lfu", cache_strategy="lru", remember_evicted=5000),
                    Followed(world, max_capacity=25, cache_strategy="lfu", remember_evicted=5000)]
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
        assert all(shard.gone_from_cache for one in followed[2:] for shard in one.shards)

"""A table that grows, forgets and admits, in NumPy and dicts: one rank's shard, operation by operation.

It is written from the description alone: which keys have which rows, when each was last asked for, which rows are free,
what the optimizer's slot holds. Nothing here is fast, and nothing comes from the kernels but initial rows.
"""
import numpy as np
from kernel_checks import mix64

from sok1x.cuda_kernels import row_init
from sok1x.cuda_kernels.arrays import of_numpy

WORD = 1 << 64


class TooFew(Exception):
    """Rows that may leave."""


class Shard:
    """The shard of one rank.

    Attributes:
      rows: {key: row}. values, slot: {row: float32 [D]}. used, frequency, stamp: {row: number} of rows given out; used
        -1 for a free row. free: free rows, ascending. given: rows ever given out. capacity: V. tick, clock, seen (how
        often each key without a row was asked for), evicted: [(key, step)].
    """

    def __init__(self, table, slot_begins, seed):
        self.table, self.options, self.slot_begins, self.seed = table, table.forgetting, slot_begins, seed
        self.capacity, self.most = table.rows, table.growth.most
        self.rows, self.values, self.slot = {}, {}, {}
        self.used, self.frequency, self.stamp = {}, {}, {}
        self.free, self.given, self.tick, self.clock, self.seen, self.evicted = [], 0, 0, 0, {}, []
        self.admitted = self.refused = 0
        self.in_flight = []  # first ticks of steps that are held open
        self._initial = {}

    def initial(self, key):
        if key not in self._initial:
            self._initial[key] = self._compute_initial(key)
        return self._initial[key].copy()

    def _compute_initial(self, key):
        out, keys = np.empty((1, self.table.dim), np.float32), np.array([key], np.int64)
        kind, a, b = self.table.distribution(1)
        row_init.initial_rows(self.seed, self.table.identity, of_numpy(keys), kind, a, b, None, of_numpy(out))
        return out[0]

    def read(self, key):
        return self.values[self.rows[key]] if key in self.rows else self.initial(key)

    # ---- a training lookup of distinct keys, in two parts: a rank that cannot stops all

    def prepare(self, keys, filtered):
        """Returns what `commit` needs; raises TooFew."""
        self.tick += 1
        for key in keys:
            if key in self.rows:
                row = self.rows[key]
                self.frequency[row] += self.used[row] != self.tick
                self.used[row] = self.tick
        missing = [key for key in keys if key not in self.rows]
        new = [key for key in missing if self.admits(key, filtered)]
        self.refused += len(missing) - len(new)
        needed = self.given + max(0, len(new) - len(self.free))
        if needed > self.most and not self.options.strategy:
            raise TooFew
        self.grow(min(needed, self.most))
        leaving = self.leaving(needed - self.capacity) if needed > self.capacity else []
        return new, leaving

    def certainly_fits(self, keys):
        """Whether a lookup of distinct keys (a set) finds room for all that are new."""
        new = sum(key not in self.rows for key in keys)
        lacking = self.given + max(0, new - len(self.free)) - self.most
        if lacking <= 0 or not self.options.strategy:
            return lacking <= 0
        asked = {self.rows[key] for key in keys if key in self.rows}
        limit = self.clock - self.options.time_to_live if self.options.strategy == "ttl" else np.inf
        return lacking <= sum(row not in asked and self.stamp[row] <= limit for row in self.rows.values())

    def admits(self, key, filtered):
        options = self.options
        if filtered is not None and options.admit_after > 1:
            self.seen[key] = self.seen.get(key, 0) + 1
            if self.seen[key] < options.admit_after:
                return False
        if filtered and options.filter_ratio < 1:
            stream = mix64((mix64(self.seed) + self.table.identity) % WORD ^ 0x9e3779b97f4a7c15)
            draw = (mix64(mix64(stream + key) + self.tick) >> 11) / 2.0 ** 53
            return draw < options.filter_ratio
        return True

    def grow(self, needed):
        """To the limit, a half, a quarter, … of it: the least that is enough, and at least twice what there is."""
        if needed <= self.capacity:
            return
        least, after = max(needed, 2 * self.capacity), self.most
        while least < after and -(-after // 2) >= least:
            after = -(-after // 2)
        self.capacity = after

    def leaving(self, lacking):
        oldest = min(self.in_flight + [self.tick])
        score = {"lru": self.used, "lfu": self.frequency, "ttl": self.stamp}[self.options.strategy]
        limit = self.clock - self.options.time_to_live if self.options.strategy == "ttl" else np.inf
        may = sorted((score[row], row) for row in self.rows.values() if self.used[row] < oldest and score[row] <= limit)
        if len(may) < lacking:
            raise TooFew
        count = len(may) if self.options.strategy == "ttl" else max(lacking, self.most // 16)
        return sorted(row for _, row in may[:count])

    def commit(self, prepared):
        new, leaving = prepared
        self.admitted += len(new)
        key_of = {row: key for key, row in self.rows.items()}
        for row in leaving:
            del self.rows[key_of[row]]
            self.used[row] = -1
            self.evicted.append((key_of[row], self.clock + 1))
        self.free = sorted(self.free + leaving)
        for key in new:
            if self.free:
                row = self.free.pop(0)
            else:
                row, self.given = self.given, self.given + 1
            self.rows[key] = row
            self.values[row] = self.initial(key)
            self.slot[row] = np.full(self.table.dim, self.slot_begins, np.float32)
            self.used[row], self.frequency[row], self.stamp[row] = self.tick, 1, self.clock + 1

    def train(self, gradients, update):
        """gradients: {key: float32 [D]}, summed. update(value, slot, gradient) -> (value, slot)."""
        self.clock += 1
        for key, gradient in gradients.items():
            if key in self.rows:
                row = self.rows[key]
                self.values[row], self.slot[row] = update(self.values[row], self.slot[row], gradient)
                self.stamp[row] = self.clock

    def check(self, got, exact_rows):
        """Compares with what the session has: {name: array}."""
        index = got["index"]
        there = index[index[:, 1] >= 0]
        assert {int(key): int(row) for key, row in there} == self.rows
        assert len(there) == len(self.rows)
        free, evicted = len(self.free), len(self.evicted)
        assert got["counters"][:3].tolist() == [self.tick, free, evicted], (got["counters"], self.tick, free, evicted)
        assert got["counters"][4:].tolist() == [self.admitted, self.refused]
        assert got["count"] == self.given and got["clock"] == self.clock, (got["count"], self.given)
        assert got["free"][:free].tolist() == self.free[::-1]
        assert len(got["rows"]) == len(got["slot"]) == len(got["used"]) == len(got["free"]) == self.capacity
        for name, expected in (("used", self.used), ("frequency", self.frequency), ("stamps", self.stamp)):
            if name in got:
                used = [row for row in range(self.given) if name == "used" or self.used[row] >= 0]
                assert [int(got[name][row]) for row in used] == [expected[row] for row in used], name
        for row in self.rows.values():
            assert got["slot"][row].tobytes() == self.slot[row].tobytes(), row
            if exact_rows:
                assert got["rows"][row].tobytes() == self.values[row].tobytes(), (row, self.values[row])
            else:
                np.testing.assert_allclose(got["rows"][row], self.values[row], rtol=1e-4, atol=1e-5)
        if "evicted" in got:
            ring = got["evicted"]
            for number in range(max(0, evicted - len(ring)), evicted):
                assert tuple(ring[number % len(ring)]) == self.evicted[number]


class Ranks:
    """The shards of all ranks: every rank follows all, so that it knows when another's fails."""

    def __init__(self, make, ranks):
        self.shards = [make() for _ in range(ranks)]

    def look_up(self, batches, filtered=False):
        """A training lookup of every rank's keys (a list of lists). Raises TooFew where it must fail on all ranks."""
        size, failed, prepared = len(self.shards), False, []
        for owner, shard in enumerate(self.shards):
            received = [key for batch in batches for key in dict.fromkeys(batch) if key % size == owner]
            try:
                prepared.append(shard.prepare(list(dict.fromkeys(received)), filtered))
            except TooFew:
                failed = True
        if failed:
            raise TooFew
        for shard, one in zip(self.shards, prepared):
            shard.commit(one)

    def certainly_fits(self, batches):
        """Whether `look_up` would succeed even if all new keys were admitted; nothing changes."""
        size = len(self.shards)
        return all(shard.certainly_fits({key for batch in batches for key in batch if key % size == owner})
                   for owner, shard in enumerate(self.shards))

    def read(self, keys):
        return np.array([self.shards[key % len(self.shards)].read(key) for key in keys], np.float32)

    def train(self, batches, gradients, update):
        """gradients: of every rank, float32 [K, D]."""
        sums = {}
        for batch, gradient in zip(batches, gradients):
            for key, one in zip(batch, gradient):
                sums[key] = sums.get(key, np.float32(0)) + one
        for owner, shard in enumerate(self.shards):
            shard.train({key: one for key, one in sums.items() if key % len(self.shards) == owner}, update)

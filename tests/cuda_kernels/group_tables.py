"""Tables as members of a lookup: random ones, with the rows that a find of their keys gives."""
import numpy as np
from group_arena import put_all, sizes
from kernel_checks import EXTREMES
from kernel_devices import SMALL, call, on, size

from sok1x.cuda_kernels import backend, group_find, groups, hash_index

KEY_TYPES = ["int64", "int32", "uint32"]
DIMS = [1, 2, 3, 4, 5, 6, 8, 12, 16, 31, 32, 33, 64, 100, 128, 130, 257, 300]


def some_keys(random, key_type, n):
    info = np.iinfo(key_type)
    edges = EXTREMES if key_type == "int64" else np.array([info.min, info.max, 0, 1, info.max - 1], key_type)
    return np.concatenate([edges.astype(key_type), random.randint(info.min, info.max, n, key_type)])


class Tables:
    """Random members of a lookup: an index or none, a table, keys of which some have no row."""

    def __init__(self, random, arena, count):
        self.count, self.n = count, sizes(random, count, size(3000) // 2)
        self.types = random.choice(KEY_TYPES, count).tolist()
        self.has_index = random.uniform(size=count) < 0.6
        self.ranks = random.choice([1, 2, 3, 8], count)
        self.limit = random.choice([0, 1, 1000, 2 ** 31 - 1], count)
        in_range = (random.uniform(size=count) < 0.2) & (self.limit > 0)  # it is only asked whether keys are
        self.ranks[in_range] = 0
        self.least = np.where(in_range, random.choice([0, -7, -2 ** 31], count), 0)
        self.dim = random.choice(DIMS if not SMALL else [1, 3, 4, 130], count)
        self.rows = random.randint(1, 500, count)
        self.keys, self.expected, indexes = [], [], []
        for t in range(count):
            keys, expected, index = (self._indexed if self.has_index[t] else self._direct)(random, t)
            self.keys.append(keys)
            self.expected.append(expected.astype(np.int32))
            indexes.append(index)
        self.capacity = np.array([len(index) for index in indexes], np.int64)
        self.index = put_all(arena, indexes)
        self.tables = [random.standard_normal((max(1, self.expected[t].max() + 1 if self.n[t] else 0), self.dim[t]))
                       .astype(np.float32) for t in range(count)]

    def _indexed(self, random, t):
        known = np.unique(some_keys(random, self.types[t], int(self.rows[t]) + 9))
        stored = random.permutation(known)[:self.rows[t]]
        capacity = hash_index.capacity(len(stored))
        index = np.empty((capacity, 2), np.int64)
        with on("host"):
            call(hash_index.clear, index)
            call(hash_index.insert, index, stored.astype(np.int64), np.full(len(stored), -1, np.int32), 0)
        row_of = dict(zip(stored.tolist(), range(len(stored))))
        keys = random.choice(known, self.n[t])
        return keys, np.array([row_of.get(key, -1) for key in keys.tolist()]), index

    def _direct(self, random, t):
        """A table without index; without a limit all keys are in range."""
        limit, ranks, least = int(self.limit[t]), int(self.ranks[t]), int(self.least[t])
        if not limit:
            keys = random.randint(0, 1000 * ranks, self.n[t])
        elif self.types[t] == "int64":
            edges = [limit, limit - 1, least, least - 1]
            keys = random.choice(np.concatenate([random.randint(-10, 2000, 50), EXTREMES, edges]), self.n[t])
        else:
            keys = some_keys(random, self.types[t], 50)
            keys = random.choice(np.concatenate([keys, random.randint(0, 2000, 50)]).astype(self.types[t]), self.n[t])
        keys = keys.astype(self.types[t])
        if limit == 2 ** 31 - 1:  # rows beyond any table of this test: small ones only
            keys[(keys >= 2000) & (keys < limit)] = 5
        wide = keys.astype(np.int64)
        inside = (wide >= least) & (wide < limit) if limit else np.ones(len(wide), bool)
        return keys, np.where(inside, wide // ranks if ranks else 0, -1), np.zeros((0, 2), np.int64)

    def members(self, base, keys, rows_at):
        members = groups.members(group_find.FIND, self.count)
        keys.lie(members["keys"], base)
        members["key_type"] = [backend.KEY_TYPES[name] for name in self.types]
        members["n"] = self.n
        members["index"] = np.where(self.has_index, base + self.index, 0)
        members["capacity"], members["ranks"] = self.capacity, self.ranks
        members["least"], members["limit"] = self.least, self.limit
        members["rows"] = base + rows_at
        return members

"""A table in host memory with a cache, in dicts: one rank's shard, lookup by lookup, from the description alone."""


class TooFew(Exception):
    """Rows that may go."""


class Shard:
    """The shard of one rank.

    Attributes:
      rows: {key: row of the cache}. used, frequency: {row: number}. free: rows of the cache, ascending. given: of it.
      homes: {key: row in host memory}. old_used, old_frequency: {such a row: number}. vacant, there: as free and given.
      numbers: hits, misses, new keys, rows pushed out. evicted: keys that have left the table.
      gone_from_cache: how many of them were in the cache.
    """

    def __init__(self, cache, most=None, strategy="lru", cache_strategy=None):
        self.cache, self.most, self.strategy = cache, most, strategy
        self.cache_strategy = cache_strategy or strategy
        self.rows, self.used, self.frequency, self.free, self.given = {}, {}, {}, [], 0
        self.homes, self.old_used, self.old_frequency, self.vacant, self.there = {}, {}, {}, [], 0
        self.tick, self.numbers, self.evicted, self.gone_from_cache = 0, [0, 0, 0, 0], [], 0

    def look_up(self, keys):
        """A training lookup of distinct keys. Returns what `commit` needs; raises TooFew."""
        self.tick += 1
        for key in keys:
            row = self.rows.get(key)
            if row is not None:
                self.frequency[row] += 1
                self.used[row] = self.tick
                self.numbers[0] += 1
        coming = [key for key in keys if key not in self.rows]
        new = [key for key in coming if key not in self.homes]
        leaving, needed = [], self.there + max(0, len(new) - len(self.vacant))
        if self.most is not None and needed > self.most:
            here, there = ((self.frequency, self.old_frequency) if self.strategy == "lfu" else
                           (self.used, self.old_used))
            may = sorted((here[self.rows[key]] if key in self.rows else there[home], home, key)
                         for key, home in self.homes.items() if key not in keys)
            if len(may) < needed - self.most:
                raise TooFew
            leaving = [key for _, _, key in may[:max(needed - self.most, self.most // 16)]]
        gone = [key for key in leaving if key in self.rows]
        lacking = len(coming) - len(self.free) - (self.cache - self.given) - len(gone)
        pushed = []
        if lacking > 0:
            score = self.frequency if self.cache_strategy == "lfu" else self.used
            may = sorted((score[row], row, key) for key, row in self.rows.items()
                         if self.used[row] < self.tick and key not in gone)
            if len(may) < lacking:
                raise TooFew
            pushed = [key for _, _, key in may[:max(lacking, self.cache // 16)]]
        return coming, new, pushed, leaving

    def commit(self, coming, new, pushed, leaving):
        self.evicted += sorted(leaving, key=self.homes.get)
        for key in leaving:
            if key in self.rows:
                row = self.rows.pop(key)
                self.free.append(row)
                self.gone_from_cache += 1
                del self.used[row], self.frequency[row]
        self.vacant = sorted(self.vacant + [self.homes.pop(key) for key in leaving])
        for key in pushed:
            row, home = self.rows.pop(key), self.homes[key]
            self.old_used[home], self.old_frequency[home] = self.used.pop(row), self.frequency.pop(row)
            self.free.append(row)
        self.free.sort()
        for key in new:
            if self.vacant:
                self.homes[key] = self.vacant.pop(0)
            else:
                self.homes[key], self.there = self.there, self.there + 1
        for key in coming:
            if self.free:
                row = self.free.pop(0)
            else:
                row, self.given = self.given, self.given + 1
            self.rows[key] = row
            self.used[row] = self.tick
            self.frequency[row] = 1 + (0 if key in new else self.old_frequency[self.homes[key]])
        self.numbers[1] += len(coming) - len(new)
        self.numbers[2] += len(new)
        self.numbers[3] += len(pushed)

"""The batches that are measured: power-law keys over a vocabulary that is in use as a whole."""
import numpy as np

MOST_KEYS = 9  # of a slot, in sparse batches


def power_law_keys(random, count, vocabulary):
    """`count` int64 keys: (floor(V u^3) * 2654435761 + 12345) mod V, u uniform in [0, 1)."""
    popularity = np.floor(vocabulary * random.uniform(size=count) ** 3).astype(np.int64)
    return (popularity * 2654435761 + 12345) % vocabulary


class Batch:
    """One rank's batch. `keys` int64 [K]; sparse ones also have `indices` int64 [K, 2], of `dense_shape`."""

    def __init__(self, layout, samples, slots, vocabulary, seed):
        random = np.random.RandomState(seed)
        self.layout, self.bags = layout, samples * slots
        # 1 to 9 keys a slot in equal shares, in random order: K is the same for every batch.
        counts = random.permutation(np.arange(self.bags) % MOST_KEYS + 1) if layout == "sparse" else np.ones(
            self.bags, np.int64)
        self.keys = power_law_keys(random, counts.sum(), vocabulary)
        bag = np.repeat(np.arange(self.bags), counts)
        starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
        self.indices = np.stack([bag, np.arange(len(bag)) - starts[bag]], axis=1)
        self.dense_shape = np.array([self.bags, MOST_KEYS], np.int64)

    def distinct(self):
        """How many distinct keys there are."""
        return len(np.unique(self.keys))


def make_batches(layout, options, rank):
    """This rank's batches, the same for both sides of a comparison."""
    return [Batch(layout, options["samples"], options["slots"], options["vocabulary"], [options["seed"], rank, number])
            for number in range(options["batches"])]

"""The members' `tf.SparseTensor`s of keys as bags, all at once; what one by one is operations/sparse_batch.py."""
import ctypes

import numpy as np

from sok1x.cuda_kernels import group_bags, groups

# Inputs of a combined lookup, by place: combined_lookup.py.
_INDICES, _KEYS, _DENSE_SHAPE = range(3)
_MOST_BAGS = 2 ** 31  # of a member; one that has more is run by itself


class SparseBatches:
    """The batches of a Batch's members, T of them.

    Attributes:
      fits: bool [T], whose tensors have the shapes that they must have.
      keys: `bulk.TENSOR` [T]. lengths, bags: int64 [T], numbers of keys and of bags; 0 where they do not fit.
    """

    def __init__(self, batch):
        self._batch = batch
        self._indices, self.keys, shapes = (batch.inputs[:, place] for place in (_INDICES, _KEYS, _DENSE_SHAPE))
        given = self.keys["elements"]
        fits = (self.keys["rank"] == 1) & (shapes["rank"] == 1) & (shapes["elements"] == 2) & (
            self._indices["rank"] == 2) & (self._indices["dims"][:, 0] == given) & (self._indices["dims"][:, 1] == 2)
        bags = np.array([ctypes.c_int64.from_address(at).value if fit else -1
                         for at, fit in zip(shapes["data"].tolist(), fits.tolist())], np.int64)
        fits &= (bags >= 0) & (bags < _MOST_BAGS) & (bags % self.slots == 0)
        self.fits = fits
        self.lengths, self.bags = np.where(fits, given, 0), np.where(fits, bags, 0)

    @property
    def slots(self):
        """S of each lookup, int64 [T]."""
        return self._batch.columns.of("slots", lambda config: config.slot_num)

    def start_offsets(self, offsets, counts):
        """Finds where bags begin, without waiting.

        Args:
          offsets: pointers [T] to int64 [bags + 1], filled where batches fit and are `usable`.
          counts: a pointer to int64 [3 T], filled.
        """
        records = groups.members(group_bags.BAGS, len(self.bags))
        records["bags"], records["stride"] = self._indices["data"], 2
        records["n"], records["n_bags"] = self.lengths, self.bags
        records["offsets"] = np.where(self.fits, offsets, 0)
        group_bags.offsets(records, counts)

    def usable(self, counts):
        """bool [T]: whose bags are as they mostly are: in order, and none longer than its lookup allows.

        Args:
          counts: int64 [3 T], what `start_offsets` has counted.
        """
        in_order, longest = group_bags.read_counts(counts.reshape(3, -1))
        return self.fits & in_order & (longest <= self._batch.columns.of("max_nnz", lambda config: config.max_nnz))


def means(batch):
    """1 for each lookup, [T], that divides a bag's sum by its number of keys."""
    return batch.columns.of("mean", lambda config: config.combiner == "mean")

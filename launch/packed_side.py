"""What an all_to_all over MPI does where counts of some pairs are too large for one call."""
import ctypes
import itertools

import numpy as np


class Side:
    """One side of an all_to_all that has pairs above the share: those (`large`), and the others packed together.

    They are packed because the displacements of some may overflow too.
    """

    def __init__(self, pointer, counts, item_bytes, share):
        begins = [pointer + end - count * item_bytes for count, end in zip(
            counts, itertools.accumulate(count * item_bytes for count in counts))]
        self.large = [(rank, begins[rank], count) for rank, count in enumerate(counts) if count > share]
        self.counts = [0 if count > share else count for count in counts]
        self.packed = np.empty(max(1, sum(self.counts) * item_bytes), np.uint8)
        self._moves, place = [], self.packed.ctypes.data
        for begin, count in zip(begins, self.counts):
            self._moves.append((place, begin, count * item_bytes))
            place += count * item_bytes

    def gather(self):
        """Packs the caller's memory."""
        for packed, callers, nbytes in self._moves:
            ctypes.memmove(packed, callers, nbytes)

    def scatter(self):
        """Unpacks into the caller's memory."""
        for packed, callers, nbytes in self._moves:
            ctypes.memmove(callers, packed, nbytes)

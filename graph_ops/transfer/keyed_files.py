"""A rank's rows of files that have the keys and the rows of all ranks in one order, whatever ranks wrote them."""
import numpy as np

from sok1x.graph_ops.transfer import distinct_keys

KEYS_AT_ONCE = 1 << 19
BUFFER_BYTES = 16 << 20

_RANGES = {"uint32": (0, 2 ** 32), "int32": (-2 ** 31, 2 ** 31)}


class RankRows:
    """Which rows of a table's files are this rank's.

    Args:
      table: what it is in the model. world: this rank of how many. rows: rows in the files.

    Attributes:
      total: this rank's rows, after `count`.
    """

    def __init__(self, table, world, rows):
        self._placement, self._world, self._rows = table.placement, world, rows
        self._limits = limits(table, world.size)
        self.total = 0

    def pieces(self, read_keys, at_once=None):
        """All keys in turn: (place of the first, keys int64 [n], places among them of this rank's).

        Args:
          read_keys: function (first, n) that gives keys int64 [n]. at_once: the largest n; None: many.
        """
        at_once = at_once or KEYS_AT_ONCE
        for first in range(0, self._rows, at_once):
            keys = read_keys(first, min(at_once, self._rows - first))
            yield first, keys, self._own(keys)

    def count(self, passes, wrong_key):
        """Counts this rank's keys.

        Args:
          passes: function that begins one more of `pieces`.
          wrong_key: function (key, place, the keys that there are in words) that gives what is raised where any key,
            whoever's, is none for this table.
        """
        self.total = 0
        for first, keys, own in passes():
            if self._limits is not None:
                least, end, expected = self._limits
                wrong = np.flatnonzero((keys < least) | (keys >= end))
                if wrong.size:
                    raise wrong_key(keys[wrong[0]], first + wrong[0], expected)
            self.total += own.size

    def repeated(self, passes):
        """A key of this rank that comes twice, or None; after `count`. passes: as for that."""
        return distinct_keys.repeated(lambda: (keys[own] for _, keys, own in passes()), self.total)

    def chunks(self, read_keys, read_values, row_bytes):
        """This rank's keys and rows, (keys int64 [n], {part: array [n, ...]}), in the files' order. What lies between
        them is read over only in part.

        Args:
          read_keys: as for `pieces`. read_values: function (first, n) that gives {part: array [n, ...]}.
          row_bytes: of all parts of a row.
        """
        for first, keys, own in self.pieces(read_keys, max(1, min(KEYS_AT_ONCE, BUFFER_BYTES // row_bytes))):
            if not own.size:
                continue
            begin, end = int(own[0]), int(own[-1]) + 1
            values = read_values(first + begin, end - begin)
            if own.size < end - begin:
                values = {part: array[own - begin] for part, array in values.items()}
            yield keys[own], values

    def _own(self, keys):
        if self._world.size == 1:
            return np.arange(len(keys))
        return np.flatnonzero(self._placement.owners(keys, self._world.size) == self._world.rank)


def limits(table, ranks):
    """(least key, end of the keys, both in words) of a table, or None where any int64 is a key."""
    if not table.hashed:
        return 0, table.total(ranks), table.expected_keys(ranks)
    if table.key_dtype in _RANGES:
        least, end = _RANGES[table.key_dtype]
        return least, end, "[{}, {}) (key_dtype {})".format(least, end, table.key_dtype)
    return None

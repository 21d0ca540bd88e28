"""A table's cache in the memory of the device, in a table's description; all rows are in the host's."""
from typing import NamedTuple, Optional, Tuple

from sok1x.graph_ops.stores.forgetting import LFU, LRU

# A table's variables besides, where it has a cache: see `CachedStore`.
VARIABLES = ("every", "home", "tiers")

STRATEGIES = (LRU, LFU)

# Places in `tiers`.
GIVEN, FREE, HITS, MISSES, NEW, PUSHED, HOST_BYTES, LEAN = range(8)
SIZE = 8


class Cache(NamedTuple):
    """See the module's text.

    Attributes:
      rows: C, that the cache has.
      strategy: which rows go back to the host's memory: 'lru', those that no training lookup has asked for the longest;
        'lfu', those that the fewest have asked for.
      pinned: bytes of host memory that may be pinned for the table, on a GPU's machine; None: as many as can be.
    """

    rows: int
    strategy: str = LRU
    pinned: Optional[int] = None

    @staticmethod
    def shape_of(variable: str, rows: Optional[int]) -> Tuple[Optional[int], ...]:
        """Of one of `VARIABLES`; rows: static, of the cache."""
        return {"every": (None, 2), "home": (rows,), "tiers": (SIZE,)}[variable]

    def label(self) -> str:
        """What all ranks must agree on, in one line."""
        return "cache of {}, {}".format(self.rows, self.strategy)

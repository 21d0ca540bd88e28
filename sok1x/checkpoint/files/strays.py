"""Keys that several ranks of a checkpoint had, because local lookups give keys rows wherever they are: whose counts."""
from typing import Dict, List, Tuple

import numpy as np

from sok1x.checkpoint.files.manifest import Table


class Strays:
    """Of the keys that one rank restores: which shard gives each its row.

    The one that the key belonged to, if it has it; else the lowest. Memory: 16 bytes a key.

    Args:
        table: the table in the checkpoint. ranks: how many saved it.
    """

    def __init__(self, table: Table, ranks: int) -> None:
        self._table, self._ranks = table, ranks
        self._found: List[Tuple[int, np.ndarray]] = []
        self._of_shard: Dict[int, np.ndarray] = {}

    def add(self, keys: np.ndarray, shard: int) -> None:
        """Takes in keys int64 [n] that a shard has; before `choose`."""
        self._found.append((shard, np.array(keys)))

    def choose(self) -> int:
        """Decides; returns how many keys there are."""
        keys = np.concatenate([keys for _, keys in self._found] or [np.zeros([0], np.int64)])
        shards = np.concatenate([np.full(len(keys), shard) for shard, keys in self._found] or [np.zeros([0], np.int64)])
        own = self._table.placement.owners(keys, self._ranks) == shards
        order = np.lexsort((shards, ~own, keys))
        first = np.ones(len(keys), bool)
        first[1:] = keys[order][1:] != keys[order][:-1]
        chosen = order[first]
        self._of_shard = {shard: np.sort(keys[chosen[shards[chosen] == shard]])
                          for shard in set(shards[chosen].tolist())}
        self._found = []
        return len(chosen)

    def chosen(self, keys: np.ndarray, shard: int) -> np.ndarray:
        """Which of a shard's keys int64 [n], by their places, get the rows that it has."""
        of_shard = self._of_shard.get(shard, keys[:0])
        if not len(of_shard):
            return np.zeros([0], np.int64)
        places = np.minimum(np.searchsorted(of_shard, keys), len(of_shard) - 1)
        return np.flatnonzero(of_shard[places] == keys)

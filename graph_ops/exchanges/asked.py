"""The requester's side: a batch's distinct keys, and whom they are asked of."""
from typing import Any

import numpy as np

from sok1x.cuda_kernels import partition
from sok1x.graph_ops.exchanges.lookup import Lookup
from sok1x.graph_ops.stores.distinct import make_distinct
from sok1x.graph_ops.stores.store import check_keys


class Asked:
    """A batch's distinct keys, in order of first appearance.

    Args:
      inverse: int32 [K], filled: which of them each position asks for.

    Attributes:
      keys: int64 [U], at the front of an `Array`. count: U.

    Raises:
      CallError: INVALID_ARGUMENT where a key can have no row.
    """

    def __init__(self, lookup: Lookup, inverse: Any) -> None:
        self.keys, self.count = make_distinct(lookup.request, lookup.keys, inverse)
        check_keys(lookup.request, lookup.table, lookup.world, self.keys, self.count,
                   lambda key: int(np.flatnonzero(inverse.read() == key)[0]))


class AskedOfOwners(Asked):
    """As `Asked`, in the order in which they are sent: by owner.

    Attributes:
      inverse: int32 [K]. send_counts: int64 [N], keys of each owner.
    """

    def __init__(self, lookup: Lookup, inverse: Any) -> None:
        super().__init__(lookup, inverse)
        request, ranks = lookup.request, lookup.world.size
        counts, position = request.temporary("int64", ranks), request.temporary("int32", self.count)
        found, self.keys = self.keys, request.temporary("int64", self.count)
        partition.partition(found.pointer, self.count, ranks, counts.pointer, self.keys.pointer, position.pointer)
        partition.remap(inverse.pointer, position.pointer, inverse.size)
        self.inverse = inverse
        self.send_counts: np.ndarray = counts.read()

"""Which exchange a lookup goes by."""
from typing import Any, Optional

import numpy as np

from sok1x.graph_ops.exchanges import sizes
from sok1x.graph_ops.exchanges.all2all import All2All
from sok1x.graph_ops.exchanges.alone import Alone
from sok1x.graph_ops.exchanges.exchange import Exchange
from sok1x.graph_ops.exchanges.lookup import headers_of
from sok1x.graph_ops.exchanges.reduce_scatter import ReduceScatter

ALONE, ALL2ALL, REDUCE_SCATTER = Alone(), All2All(), ReduceScatter()
_NAMES = {"all2all": ALL2ALL, "reduce_scatter": REDUCE_SCATTER, "settled": ALL2ALL}
_NUMBERS = {exchange.number: exchange for exchange in (ALL2ALL, REDUCE_SCATTER)}


def of_keys(world: Any) -> Exchange:
    """For a row for each key."""
    return ALONE if world.size == 1 else ALL2ALL


def to_prepare(world: Any, wanted: str) -> Exchange:
    """For bags, before the ranks have seen each other's headers.

    Args:
      wanted: 'all2all', 'reduce_scatter', 'auto' or 'settled'.
    """
    return ALONE if world.size == 1 else _NAMES.get(wanted, ALL2ALL)


def to_run(world: Any, wanted: str, row_bytes: int, headers: np.ndarray) -> Optional[Exchange]:
    """For bags, when they have. Equal on all ranks. None where `settle` is to say: ranks wish for different ones."""
    if world.size == 1:
        return ALONE
    return unanimous(headers) if world.short_headers and wanted == "auto" else choose(wanted, row_bytes, headers)


def of_route(world: Any, route: np.ndarray) -> Exchange:
    """For a gradient of bags, whose lookup has saved this; its first number is that of its exchange."""
    return ALONE if world.size == 1 else _NUMBERS[int(route[0])]


def unanimous(headers: np.ndarray) -> Optional[Exchange]:
    """What `choose` gives, from short headers, which have each rank's wish (sizes.py) in place of its sizes.

    What ranks have adds up: where it is less by one exchange on each, so it is on all together. Where it is not, None.
    """
    wishes = headers[:, 1] != 0
    if not (headers[:, 0].any() and wishes.any()) or (headers[:, 1] == sizes.NO_CHOICE).any():
        return ALL2ALL
    return REDUCE_SCATTER if wishes.all() else None


def settle(world: Any, surplus: int) -> Exchange:
    """What `choose` gives, where `unanimous` does not say (all ranks call it).

    Args:
      surplus: this rank's `sizes.surplus`, a whole number: so their sum is the same on all ranks.
    """
    total = np.array([surplus], np.int64)
    world.communicator.all_reduce(total.ctypes.data, 1, "int64")
    return _of_surplus(int(total[0]))


def choose(wanted: str, row_bytes: int, headers: np.ndarray) -> Exchange:
    """The exchange of a step: of one that trains the one that moves fewer bytes, forward and backward together, over
    all ranks (sizes.py).

    An evaluation goes by all2all: the requester adds up a bag's rows in the order of its keys, so that what is
    predicted for a sample depends neither on the other samples nor on the number of ranks, and is what
    `sok1x.serving` exports. Of a session.run without gradients bridge_signature.cc has lookups say 'settled' in place
    of 'auto', whatever their `training` says. Another rank may have asked for gradients in the same turn: so a rank
    tells the others, in place of its distinct keys, and they go by all2all, too.
    """
    if wanted != "auto":
        return _NAMES[wanted]
    if not headers[:, 0].any() or (headers_of(headers, True).distinct < 0).any():
        return ALL2ALL
    every = headers_of(headers.sum(axis=0, keepdims=True), True)
    return _of_surplus(sizes.surplus(row_bytes, headers.shape[0], int(every.bags[0]), int(every.keys[0]),
                                     int(every.distinct[0])))


def _of_surplus(surplus: int) -> Exchange:
    return REDUCE_SCATTER if surplus > 0 else ALL2ALL

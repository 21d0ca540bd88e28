"""Which exchange a lookup goes by: the only place that asks whether there are other ranks."""
from typing import Any

import numpy as np

from sok1x.graph_ops.exchanges.all2all import All2All
from sok1x.graph_ops.exchanges.alone import Alone
from sok1x.graph_ops.exchanges.exchange import Exchange
from sok1x.graph_ops.exchanges.lookup import headers_of
from sok1x.graph_ops.exchanges.reduce_scatter import ReduceScatter

ALONE, ALL2ALL, REDUCE_SCATTER = Alone(), All2All(), ReduceScatter()
_NAMES = {"all2all": ALL2ALL, "reduce_scatter": REDUCE_SCATTER}
_NUMBERS = {exchange.number: exchange for exchange in _NAMES.values()}


def of_keys(world: Any) -> Exchange:
    """For a row for each key."""
    return ALONE if world.size == 1 else ALL2ALL


def to_prepare(world: Any, wanted: str) -> Exchange:
    """For bags, before the ranks have seen each other's headers. wanted: 'all2all', 'reduce_scatter' or 'auto'."""
    return ALONE if world.size == 1 else _NAMES.get(wanted, ALL2ALL)


def to_run(world: Any, wanted: str, row_bytes: int, headers: np.ndarray) -> Exchange:
    """For bags, when they have. Equal on all ranks."""
    return ALONE if world.size == 1 else choose(wanted, row_bytes, headers)


def of_route(world: Any, route: np.ndarray) -> Exchange:
    """For a gradient of bags, whose lookup has saved this; its first number is that of its exchange."""
    return ALONE if world.size == 1 else _NUMBERS[int(route[0])]


def choose(wanted: str, row_bytes: int, headers: np.ndarray) -> Exchange:
    """The exchange of a step: of one that trains the one that moves fewer bytes, forward and backward together, over
    all ranks.

    all2all moves each distinct key (8 bytes) and its row and gradient (row_bytes each); reduce_scatter moves each
    key with its bag (16 bytes) and, N times as far, the bags' sums and gradients.

    An evaluation goes by all2all: the requester adds up a bag's rows in the order of its keys, so that what is
    predicted for a sample depends neither on the other samples nor on the number of ranks, and is what
    `sok1x.serving` exports. (bridge_signature.cc has lookups of a session.run without gradients want it, too.)
    """
    if wanted != "auto":
        return _NAMES[wanted]
    if not headers[:, 0].any():
        return ALL2ALL
    every = headers_of(headers.sum(axis=0, keepdims=True), True)
    bags, keys, distinct = int(every.bags[0]), int(every.keys[0]), int(every.distinct[0])
    by_all2all = distinct * (8 + 2 * row_bytes)
    by_reduce_scatter = keys * 16 + headers.shape[0] * bags * 2 * row_bytes
    return ALL2ALL if by_all2all <= by_reduce_scatter else REDUCE_SCATTER

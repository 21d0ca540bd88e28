"""No exchange: one rank, which owns all keys.

Bytes moved: none. Positions are looked up one by one, without making keys distinct: only the gradient needs to know
which rows are, and an op of its own finds that out (operations/distinct_rows.py). Forward leaves `inverse`, the row of
each position, and nothing else; the distinct rows stand in `rows` when backward runs.
"""
from typing import Any

import numpy as np

from sok1x.cuda_kernels import row_numbers
from sok1x.graph_ops.exchanges.asked import ask
from sok1x.graph_ops.exchanges.exchange import Exchange
from sok1x.graph_ops.exchanges.lookup import NOTHING, Gradient, Lookup
from sok1x.graph_ops.exchanges.row_sums import Kept, sum_by_row
from sok1x.graph_ops.stores import key_types
from sok1x.graph_ops.stores.store import request_store


class Alone(Exchange):
    """See the module's text."""

    number = -1  # never saved

    def prepare(self, lookup: Lookup) -> np.ndarray:
        """See `Exchange.prepare`."""
        return NOTHING

    def forward(self, lookup: Lookup, headers: np.ndarray) -> None:
        """See `Exchange.forward`."""
        request = lookup.request
        lookup.start()
        at, out = lookup.leave("inverse", lookup.keys.size), lookup.embeddings()
        lookup.leave_rest()
        with request_store(request, lookup.config, lookup.world, exclusive=lookup.writes) as store:
            if request.needs_rows or key_types.are_wider(lookup.table, lookup.keys):  # the former is known to C++
                lookup.check()
            elif lookup.look_up(store, at, out):
                lookup.keep(lambda positions, kept: positions.spread(store.rows, at, kept))
                if lookup.training:
                    store.touched(at)
                else:
                    store.keep_from_gradient(at)
                return
            asked = ask(lookup, request.temporary("int32", lookup.keys.size))
            found = store.find_or_insert(lookup.training, asked.keys, asked.count,
                                         request.temporary("int32", asked.count))
            lookup.layout.read(store, asked.keys, found, asked.inverse, out)
            lookup.keep(lambda positions, kept: positions.read(store, asked.keys, found, asked.inverse, kept))
            if not lookup.training:
                store.keep_from_gradient(found.rows)
        row_numbers.look_up(found.rows, asked.inverse, at)

    def prepare_backward(self, back: Gradient) -> None:
        """See `Exchange.prepare_backward`."""

    def backward(self, back: Gradient, headers: np.ndarray) -> None:
        """See `Exchange.backward`."""
        sum_by_row(back, back.given, back.layout, back.saved.inverse)

    def spread(self, back: Gradient, kept: Kept, headers: np.ndarray, out: Any) -> None:
        """See `Exchange.spread`."""
        back.layout.spread(back.given, kept.places(back.saved.inverse), out)

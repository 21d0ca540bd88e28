"""Distinct keys travel to their owners, their rows travel back, and each rank makes its own embeddings of them.

Bytes that a rank moves, U distinct keys of which each is another rank's: 8 U for keys and E D U for rows (E bytes of a
number), in a forward; E D U for gradients in a backward. Forward leaves

  inverse    which of the sent keys each position asked for
  rows       rows of the distinct keys that this rank was asked for; nothing where every key received has a row already
  requested  which of `rows` each received key is; where `rows` is nothing, its row itself
  counts     keys sent to each rank, keys received from each

and backward goes the same way in the other direction, with sums where forward spreads. How keys, rows and sums go there
and back is in direct.py; by_hosts.py does it in two steps, for ranks of several hosts. Where embeddings are float16, so
is what travels: rows, rounded by their owner, and each rank's sums of gradients, rounded once. Sums are made in
float32.
"""
from typing import Any

import numpy as np

from sok1x.cuda_kernels import dense
from sok1x.graph_ops.bridge.agreed import agreed
from sok1x.graph_ops.exchanges import by_hosts, direct, ties
from sok1x.graph_ops.exchanges.asked import ask_owners
from sok1x.graph_ops.exchanges.exchange import Exchange
from sok1x.graph_ops.exchanges.layouts import Positions
from sok1x.graph_ops.exchanges.lookup import Gradient, Lookup
from sok1x.graph_ops.exchanges.row_sums import Kept, sum_by_row
from sok1x.graph_ops.exchanges.training import check_training
from sok1x.graph_ops.stores import figures
from sok1x.graph_ops.stores.distinct import make_distinct
from sok1x.graph_ops.stores.store import request_store


class All2All(Exchange):
    """See the module's text."""

    number = 0

    def prepare(self, lookup: Lookup) -> np.ndarray:
        """See `Exchange.prepare`."""
        lookup.start()
        lookup.check()
        asked = lookup.state = ask_owners(lookup, lookup.leave("inverse", lookup.keys.size))
        return lookup.header(asked.count, asked.send_counts)

    def forward(self, lookup: Lookup, headers: np.ndarray) -> None:
        """See `Exchange.forward`."""
        asked, every = lookup.state, lookup.headers(headers)
        out = lookup.embeddings()
        check_training(lookup.table, every.training)
        if not lookup.request.again:
            figures.batch(lookup.table.name, lookup.keys.size, asked.count)
        values = _way(lookup).ask(self.number, lookup, every, asked, out.dtype, _answer)
        lookup.leave_rest()
        lookup.layout.spread(values, asked.inverse, out)
        lookup.keep(lambda positions, kept: positions.spread(values, asked.inverse, kept))

    def prepare_backward(self, back: Gradient) -> None:
        """See `Exchange.prepare_backward`: sums over this rank's positions, in the dtype in which they travel."""
        request, dtype = back.request, back.given.dtype
        sent, _ = back.sent_and_received()
        summed = back.state = request.temporary("float32", int(sent.sum()), back.table.dim)
        back.layout.sum(back.given, back.saved.inverse, summed.shape[0], summed)
        if dtype != "float32":
            back.state = request.temporary(dtype, *summed.shape)
            dense.narrow_half(summed, back.state)

    def backward(self, back: Gradient, headers: np.ndarray) -> None:
        """See `Exchange.backward`."""
        requested = back.saved.requested
        ties.check_counts(back.request.name, headers, back.world.size)
        gradients = _way(back).to_owners(back, back.state)
        sum_by_row(back, gradients, Positions(back.table.dim, requested.size), requested)

    def spread(self, back: Gradient, kept: Kept, headers: np.ndarray, out: Any) -> None:
        """See `Exchange.spread`."""
        request, requested, dim = back.request, back.saved.requested, back.table.dim
        ties.check_counts(request.name, headers, back.world.size)
        answers = request.temporary(out.dtype, requested.size, dim)
        Positions(dim, requested.size).spread(back.given, kept.places(requested), answers)
        back.layout.spread(_way(back).to_requesters(back, answers), back.saved.inverse, out)


def _way(run: Any) -> Any:
    """The module by which a `Lookup`, or `Gradient`, goes."""
    return direct if run.by_hosts is None else by_hosts


def _answer(lookup: Lookup, keys: Any, answers: Any) -> None:
    """The owner's side: answers [R, D], float32 or float16, to keys int64 [R], of which several ranks may ask one."""
    request, training = lookup.request, lookup.training
    requested = lookup.leave("requested", keys.size)
    with request_store(request, lookup.config, lookup.world, exclusive=lookup.writes) as store:
        if store.look_up(keys, requested, answers) == 0:
            if training:  # as where keys are inserted, on all ranks
                agreed(lookup.world, lambda: store.touched(requested))
            else:
                store.keep_from_gradient(requested)
            return
        distinct, count = make_distinct(request, keys, requested)
        found = store.find_or_insert(training, distinct, count, lookup.leave("rows", count))
        store.gather(found, requested, answers)
        store.fill_unseen(distinct, found, requested, answers)
        if not training:
            store.keep_from_gradient(found.rows)

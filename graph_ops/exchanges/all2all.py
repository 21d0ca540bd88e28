"""Distinct keys travel to their owners, their rows travel back, and each rank makes its own embeddings of them.

Bytes that a rank moves, U distinct keys of which each is another rank's: 8 U for keys and E D U for rows (E bytes of a
number), in a forward; E D U for gradients in a backward. Forward leaves

  inverse    which of the sent keys each position asked for
  rows       rows of the distinct keys that this rank was asked for; nothing where every key received has a row already
  requested  which of `rows` each received key is; where `rows` is nothing, its row itself
  counts     keys sent to each rank, keys received from each

and backward goes the same way in the other direction, with sums where forward spreads. Where embeddings are float16,
so is what travels: rows, rounded by their owner, and each rank's sums of gradients, rounded once. Sums are made in
float32.
"""
from typing import Any

import numpy as np

from sok1x.cuda_kernels import dense
from sok1x.graph_ops.bridge import timeline
from sok1x.graph_ops.bridge.agreed import agreed
from sok1x.graph_ops.exchanges import ties
from sok1x.graph_ops.exchanges.asked import AskedOfOwners, ask_owners
from sok1x.graph_ops.exchanges.exchange import Exchange
from sok1x.graph_ops.exchanges.layouts import Positions
from sok1x.graph_ops.exchanges.lookup import Gradient, Lookup, row_bytes
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
        recv_counts = lookup.recv_counts(every, asked.send_counts)
        lookup.leave_counts(self.number, [asked.send_counts, recv_counts])
        if not lookup.request.again:
            figures.batch(lookup.table.name, lookup.keys.size, asked.count)
        figures.asked(lookup.table.name, lookup.world.rank, asked.send_counts, recv_counts,
                      row_bytes(lookup.table, out.dtype), keys=True)
        values = self._ask(lookup, asked, recv_counts, out.dtype)
        lookup.leave_rest()
        lookup.layout.spread(values, asked.inverse, out)
        lookup.keep(lambda positions, kept: positions.spread(values, asked.inverse, kept))

    @staticmethod
    def _ask(lookup: Lookup, asked: AskedOfOwners, recv_counts: np.ndarray, dtype: str) -> Any:
        """The values of the keys asked for, of `dtype` [U, D]; and this rank's answers to what others ask."""
        request, item = lookup.request, row_bytes(lookup.table, dtype)
        received = int(recv_counts.sum())
        keys = request.temporary("int64", received)
        request.communicator.all_to_all(asked.keys.pointer, asked.send_counts, keys.pointer, recv_counts, 8)
        request.come(timeline.KEYS)
        answers = request.temporary(dtype, received, lookup.table.dim)
        _answer(lookup, keys, answers)
        values = request.temporary(dtype, asked.count, lookup.table.dim)
        request.communicator.all_to_all(answers.pointer, recv_counts, values.pointer, asked.send_counts, item)
        request.come(timeline.ROWS)
        return values

    def prepare_backward(self, back: Gradient) -> None:
        """See `Exchange.prepare_backward`: sums over this rank's positions, in the dtype in which they travel."""
        request, dtype = back.request, back.given.dtype
        sent, _ = back.sent_and_received()
        summed = back.state = request.temporary("float32", int(sent.sum()), back.table.dim)
        back.layout.sum(back.given, back.saved.inverse, summed.shape[0], summed)
        if dtype != "float32":
            back.state = request.temporary(dtype, *summed.shape)
            dense.narrow_half(summed.pointer, summed.size, back.state.pointer)

    def backward(self, back: Gradient, headers: np.ndarray) -> None:
        """See `Exchange.backward`."""
        request, summed, requested = back.request, back.state, back.saved.requested
        ties.check_counts(request.name, headers, back.world.size)
        sent, received = back.sent_and_received()
        gradients = request.temporary(summed.dtype, requested.size, back.table.dim)
        request.communicator.all_to_all(summed.pointer, sent, gradients.pointer, received,
                                        row_bytes(back.table, summed.dtype))
        figures.asked(back.table.name, back.world.rank, sent, received, row_bytes(back.table, summed.dtype), keys=False)
        request.come(timeline.ROWS)
        sum_by_row(back, gradients, Positions(back.table.dim, requested.size), requested)

    def spread(self, back: Gradient, kept: Kept, headers: np.ndarray, out: Any) -> None:
        """See `Exchange.spread`."""
        request, requested, dim = back.request, back.saved.requested, back.table.dim
        ties.check_counts(request.name, headers, back.world.size)
        sent, received = back.sent_and_received()
        answers = request.temporary(out.dtype, requested.size, dim)
        Positions(dim, requested.size).spread(back.given, kept.places(requested), answers)
        values = request.temporary(out.dtype, int(sent.sum()), dim)
        request.communicator.all_to_all(answers.pointer, received, values.pointer, sent,
                                        row_bytes(back.table, out.dtype))
        back.layout.spread(values, back.saved.inverse, out)


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

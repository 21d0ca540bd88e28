"""The usual way of all2all: every rank asks every owner, and each answers it.

`counts` are the keys that this rank has sent to each, and those that it has received from each.
"""
from typing import Any, Callable

from sok1x.graph_ops.bridge import timeline
from sok1x.graph_ops.exchanges.asked import AskedOfOwners
from sok1x.graph_ops.exchanges.lookup import Gradient, Header, Lookup, row_bytes
from sok1x.graph_ops.stores import figures


def ask(number: int, lookup: Lookup, every: Header, asked: AskedOfOwners, dtype: str,
        answer: Callable[[Lookup, Any, Any], None]) -> Any:
    """The values of the keys asked for, of `dtype` [U, D]; and this rank's answers to what others ask.

    Args:
      number: of the exchange. every: the headers of all ranks.
      answer: is given the lookup, keys int64 [R], and room for their values [R, D], which it fills.
    """
    request, item, send_counts = lookup.request, row_bytes(lookup.table, dtype), asked.send_counts
    recv_counts = lookup.recv_counts(every, send_counts)
    lookup.leave_counts(number, [send_counts, recv_counts])
    figures.asked(lookup.table.name, lookup.world.rank, send_counts, recv_counts, item, keys=True)
    received = int(recv_counts.sum())
    keys = request.temporary("int64", received)
    request.communicator.all_to_all(asked.keys.pointer, send_counts, keys.pointer, recv_counts, 8)
    request.come(timeline.KEYS)
    answers = request.temporary(dtype, received, lookup.table.dim)
    answer(lookup, keys, answers)
    values = request.temporary(dtype, asked.count, lookup.table.dim)
    request.communicator.all_to_all(answers.pointer, recv_counts, values.pointer, send_counts, item)
    request.come(timeline.ROWS)
    return values


def to_owners(back: Gradient, summed: Any) -> Any:
    """The gradients [R, D] of the keys that this rank was asked for, from each rank's sums [U, D]."""
    request, size = back.request, row_bytes(back.table, summed.dtype)
    sent, received = back.sent_and_received()
    gradients = request.temporary(summed.dtype, back.saved.requested.size, back.table.dim)
    request.communicator.all_to_all(summed.pointer, sent, gradients.pointer, received, size)
    figures.asked(back.table.name, back.world.rank, sent, received, size, keys=False)
    request.come(timeline.ROWS)
    return gradients


def to_requesters(back: Gradient, answers: Any) -> Any:
    """What belongs to the keys [U, D] that this rank has asked for, from what owners have for those asked of them."""
    request = back.request
    sent, received = back.sent_and_received()
    values = request.temporary(answers.dtype, int(sent.sum()), back.table.dim)
    request.communicator.all_to_all(answers.pointer, received, values.pointer, sent,
                                    row_bytes(back.table, answers.dtype))
    return values

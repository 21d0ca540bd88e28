"""The way of all2all where it goes by hosts (launch/by_hosts.py): what leaves a host is distinct, and few messages.

A rank asks none but the ranks of its own host: for a key, the one that has its owner's local number. That one, the
*proxy*, makes the keys of all ranks of the host distinct, and asks their owners, which have its local number on all
hosts. Rows come back the same way; of gradients the proxy adds up what the ranks of its host have for one key. So a
rank has two exchanges each way, among L ranks and among H, in place of one among L H.

Bytes that cross hosts: as directly (all2all.py), but of the distinct keys of a host, not of each of its ranks. Sums of
gradients are those of the ranks of a host, then those of hosts: in another order than directly, the same in each run.
Where embeddings are float16, a proxy rounds its sums once more.

Forward leaves, besides what all2all does,

  relayed  which of the keys that this rank has asked owners for each key has that it was asked for in its host
  counts   keys that this rank has sent inside its host, and received there; likewise across hosts

C++ does the same for groups (groups/lookup_run_hosts.cc).
"""
from typing import Any, Callable, Iterable, Tuple, Union

import numpy as np

from sok1x.cuda_kernels import dense, partition
from sok1x.graph_ops.bridge import timeline
from sok1x.graph_ops.exchanges.asked import AskedOfOwners, by_owner
from sok1x.graph_ops.exchanges.layouts import Positions
from sok1x.graph_ops.exchanges.lookup import Gradient, Header, Lookup, counts_for_this_rank, row_bytes
from sok1x.graph_ops.stores import figures
from sok1x.graph_ops.stores.distinct import make_distinct
from sok1x.launch.by_hosts import ACROSS, INSIDE

_Counts = Tuple[np.ndarray, np.ndarray]


def ask(number: int, lookup: Lookup, every: Header, asked: AskedOfOwners, dtype: str,
        answer: Callable[[Lookup, Any, Any], None]) -> Any:
    """As `direct.ask`."""
    request, dim, exchange = lookup.request, lookup.table.dim, lookup.request.communicator.all_to_all
    item, near_sent = row_bytes(lookup.table, dtype), asked.send_counts
    near_received = counts_for_this_rank(lookup.world, near_sent[None], INSIDE)[0]
    total = int(near_received.sum())
    came = request.temporary("int64", total)
    exchange(asked.keys.pointer, near_sent, came.pointer, near_received, 8, INSIDE)

    relayed, position, grouped = lookup.leave("relayed", total), request.temporary("int32", total), request.temporary(
        "int64", total)
    distinct, count = make_distinct(request, came, relayed)
    sent = by_owner(lookup, distinct, count, grouped, position)
    partition.remap(relayed, position.front(count))
    received = counts_for_this_rank(lookup.world, sent[None], ACROSS)[0]
    lookup.leave_counts(number, [near_sent, near_received, sent, received])
    _note(lookup, ((near_sent, near_received), (sent, received)), item, keys=True)
    keys = request.temporary("int64", int(received.sum()))
    exchange(grouped.pointer, sent, keys.pointer, received, 8, ACROSS)
    request.come(timeline.KEYS)

    answers = request.temporary(dtype, keys.size, dim)
    answer(lookup, keys, answers)
    passed_on = request.temporary(dtype, count, dim)
    exchange(answers.pointer, received, passed_on.pointer, sent, item, ACROSS)
    near_answers, values = request.temporary(dtype, total, dim), request.temporary(dtype, asked.count, dim)
    Positions(dim, total).spread(passed_on, relayed, near_answers)
    exchange(near_answers.pointer, near_received, values.pointer, near_sent, item, INSIDE)
    request.come(timeline.ROWS)
    return values


def to_owners(back: Gradient, summed: Any) -> Any:
    """As `direct.to_owners`."""
    request, dim, dtype, relayed = back.request, back.table.dim, summed.dtype, back.saved.relayed
    size, (near_sent, near_received), (sent, received) = ways = _ways(back, dtype)
    came, gradients = request.temporary(dtype, relayed.size, dim), request.temporary(
        dtype, back.saved.requested.size, dim)
    request.communicator.all_to_all(summed.pointer, near_sent, came.pointer, near_received, size, INSIDE)
    sums = request.temporary("float32", int(sent.sum()), dim)
    Positions(dim, relayed.size).sum(came, relayed, sums.shape[0], sums)
    if dtype != "float32":
        rounded = request.temporary(dtype, *sums.shape)
        dense.narrow_half(sums, rounded)
        sums = rounded
    request.communicator.all_to_all(sums.pointer, sent, gradients.pointer, received, size, ACROSS)
    _note(back, ways[1:], size, keys=False)
    request.come(timeline.ROWS)
    return gradients


def to_requesters(back: Gradient, answers: Any) -> Any:
    """As `direct.to_requesters`."""
    request, dim, dtype, relayed = back.request, back.table.dim, answers.dtype, back.saved.relayed
    size, (near_sent, near_received), (sent, received) = _ways(back, dtype)
    passed_on, near_answers, values = (request.temporary(dtype, count, dim) for count in (
        int(sent.sum()), relayed.size, int(near_sent.sum())))
    request.communicator.all_to_all(answers.pointer, received, passed_on.pointer, sent, size, ACROSS)
    Positions(dim, relayed.size).spread(passed_on, relayed, near_answers)
    request.communicator.all_to_all(near_answers.pointer, near_received, values.pointer, near_sent, size, INSIDE)
    return values


def _ways(back: Gradient, dtype: str) -> Tuple[int, _Counts, _Counts]:
    """Bytes of a row as it travels; keys sent and received inside its host, and across hosts."""
    return row_bytes(back.table, dtype), back.sent_and_received(0), back.sent_and_received(1)


def _note(of: Union[Lookup, Gradient], ways: Iterable[_Counts], size: int, keys: bool) -> None:
    """Both exchanges count. See `figures.asked`."""
    for sent, received in ways:
        figures.asked(of.table.name, of.world.rank, sent, received, size, keys)

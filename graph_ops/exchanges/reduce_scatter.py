"""Every key travels with its bag to the key's owner, who combines what it owns for the bags of all ranks.

Reduce-Scatter adds these partial sums up; gradients travel by All-Gather. Bytes that a rank moves, K keys and B bags of
each of N ranks: 16 K for keys with their bags and E D N B for partial sums (E bytes of a number), in a forward; E D N B
for gradients in a backward. Forward leaves

  rows         rows of the distinct keys that this rank was given; nothing where a group has run it
  requested    which of `rows` each received key is; where `rows` is nothing, its row itself
  all_offsets  where each bag of all ranks begins among the received keys
  counts       bags of each rank

and `inverse` is empty unless the exchange was chosen when keys had been made distinct already. Partial sums go to the
rank that has the bags by All2All, as many bytes as in a Reduce-Scatter, and are added up there in the order of the
ranks, in float32: so sums are the same bits by MPI and by NCCL, and float16 ones are rounded once.
"""
from typing import Any, Tuple

import numpy as np

from sok1x.cuda_kernels import bags as bag_kernels
from sok1x.cuda_kernels import combine, group_parts, groups, partition, unique
from sok1x.graph_ops.bridge import timeline
from sok1x.graph_ops.bridge.bridge import ITEM_BYTES
from sok1x.graph_ops.exchanges import ties
from sok1x.graph_ops.exchanges.asked import by_owner
from sok1x.graph_ops.exchanges.exchange import Exchange
from sok1x.graph_ops.exchanges.layouts import Bags
from sok1x.graph_ops.exchanges.lookup import Gradient, Header, Lookup, counts_for_this_rank, row_bytes
from sok1x.graph_ops.exchanges.row_sums import Kept, sum_by_row
from sok1x.graph_ops.exchanges.training import check_training
from sok1x.graph_ops.stores import figures, key_types
from sok1x.graph_ops.stores.distinct import check_size, make_distinct
from sok1x.graph_ops.stores.store import check_keys, request_store
from sok1x.graph_ops.stores.table import Table


class ReduceScatter(Exchange):
    """See the module's text. It is for bags alone."""

    number = 1

    def prepare(self, lookup: Lookup) -> np.ndarray:
        """See `Exchange.prepare`: keys travel whatever they are, so nobody needs to know which are distinct."""
        lookup.start()
        lookup.check()
        check_size(lookup.request, lookup.keys.size)
        check_keys(lookup.request, lookup.table, lookup.world, lookup.keys, lookup.keys.size, lookup.place_of)
        key_types.check(lookup.request, lookup.table, lookup.world, lookup.keys, lookup.place_of)
        return lookup.header(0, np.zeros(lookup.world.size, np.int64))

    def forward(self, lookup: Lookup, headers: np.ndarray) -> None:
        """See `Exchange.forward`."""
        request, world, every, bags = lookup.request, lookup.world, lookup.headers(headers), lookup.layout
        assert isinstance(bags, Bags)
        out = lookup.embeddings()
        check_training(lookup.table, every.training)
        keys, key_bags, counts = _exchange_pairs(lookup, bags, every)
        lookup.leave_counts(self.number, [counts])
        total = int(counts.sum())
        requested, offsets = lookup.leave("requested", keys.size), lookup.leave("all_offsets", total + 1)
        distinct, count = make_distinct(request, keys, requested)
        combine.bag_offsets(key_bags, offsets)
        partial = request.temporary(out.dtype, total, lookup.table.dim)
        with request_store(request, lookup.config, world, exclusive=lookup.writes) as store:
            found = store.find_or_insert(lookup.training, distinct, count, lookup.leave("rows", count))
            Bags(lookup.table.dim, offsets, False).read(store, distinct, found, requested, partial)
            if not lookup.training:
                store.keep_from_gradient(found.rows)
        lookup.leave_rest()
        _add_up(request, world, partial, counts, bags, out)
        request.come(timeline.ROWS)
        count_sums(lookup.table, world.rank, counts, out.dtype, gathers=False)

    def prepare_backward(self, back: Gradient) -> None:
        """See `Exchange.prepare_backward`."""
        back.state = back.given
        assert isinstance(back.layout, Bags)
        if back.layout.mean:
            back.state = back.request.temporary(back.given.dtype, back.layout.count, back.table.dim)
            back.layout.divide(back.given, back.state)

    def backward(self, back: Gradient, headers: np.ndarray) -> None:
        """See `Exchange.backward`."""
        request, dtype, dim, counts = back.request, back.given.dtype, back.table.dim, back.counts.copy()
        ties.check_equal(request.name, headers)
        gradients = request.temporary(dtype, int(counts.sum()), dim)
        request.communicator.all_gather(back.state.pointer, gradients.pointer, counts, row_bytes(back.table, dtype))
        request.come(timeline.ROWS)
        count_sums(back.table, back.world.rank, counts, dtype, gathers=True)
        sum_by_row(back, gradients, Bags(dim, back.saved.all_offsets, False), back.saved.requested)

    def spread(self, back: Gradient, kept: Kept, headers: np.ndarray, out: Any) -> None:
        """See `Exchange.spread`."""
        request, dim, counts = back.request, back.table.dim, back.counts.copy()
        ties.check_equal(request.name, headers)
        assert isinstance(back.layout, Bags)
        partial = request.temporary(out.dtype, int(counts.sum()), dim)
        Bags(dim, back.saved.all_offsets, False).spread(back.given, kept.places(back.saved.requested), partial)
        _add_up(request, back.world, partial, counts, back.layout, out)


def count_pairs(table: str, rank: int, sends: np.ndarray, receives: np.ndarray) -> None:
    """Counts bytes of keys with their bags: int64 [N] each, those that go to each rank, and come from each."""
    figures.moved(table, *(16 * int(counts.sum() - counts[rank]) for counts in (sends, receives)))


def count_sums(table: Table, rank: int, bags: np.ndarray, dtype: str, gathers: bool) -> None:
    """Counts bytes of a lookup's partial sums, or of gradients that all ranks gather; bags: int64 [N], of each rank."""
    mine, size = int(bags[rank]), row_bytes(table, dtype)
    to_all, others = mine * (len(bags) - 1) * size, (int(bags.sum()) - mine) * size
    figures.moved(table.name, *((to_all, others) if gathers else (others, to_all)))


def _exchange_pairs(lookup: Lookup, bags: Bags, every: Header) -> Tuple[Any, Any, np.ndarray]:
    """Sends each key, with the number of its bag among all ranks' bags, to the key's owner.

    Args:
      every: of all ranks.

    Returns:
      (keys int64 [R], bags int64 [R]) received, in the order of their bags; and int64 [N], bags of each rank.
    """
    request, given, length = lookup.request, lookup.keys, lookup.keys.size
    wide, position = request.temporary("int64", length), request.temporary("int32", length)
    grouped, own = request.temporary("int64", length), request.temporary("int64", length)
    sent_bags = request.temporary("int64", length)
    unique.widen(given, wide)
    send_counts = by_owner(lookup, wide, length, grouped, position)
    recv_counts, bag_counts = _exchange_counts(lookup, bags, every, send_counts)
    bag_kernels.of_keys(bags.offsets, int(bag_counts[:lookup.world.rank].sum()), own)
    partition.permute(own, position, sent_bags)
    received = int(recv_counts.sum())
    keys, key_bags = request.temporary("int64", received), request.temporary("int64", received)
    request.communicator.all_to_all(grouped.pointer, send_counts, keys.pointer, recv_counts, 8)
    request.communicator.all_to_all(sent_bags.pointer, send_counts, key_bags.pointer, recv_counts, 8)
    request.come(timeline.KEYS)
    count_pairs(lookup.table.name, lookup.world.rank, send_counts, recv_counts)
    return keys, key_bags, bag_counts


def _exchange_counts(lookup: Lookup, bags: Bags, every: Header,
                     send_counts: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
    """int64 [N] each: the keys that each rank has for this one; the bags of each, told here where headers are short."""
    if every.bags is not None:
        return lookup.request.communicator.exchange_counts(send_counts), np.ascontiguousarray(every.bags)
    of_all = counts_for_this_rank(lookup.world, np.stack([send_counts, np.full_like(send_counts, bags.count)]))
    return of_all[0], of_all[1]


def _add_up(request: Any, world: Any, partial: Any, counts: np.ndarray, bags: Bags, out: Any) -> None:
    """Adds up the ranks' partial sums; each rank gets those of its bags, and divides them where they are means.

    Args:
      partial: [sum(counts), D], float32 or float16, the bags of rank 0 first. counts: int64 [N], bags of each rank.
      bags: this rank's. out: of `partial`'s dtype, filled: counts[rank] rows.
    """
    dim, mine, ranks = partial.shape[1], int(counts[world.rank]), world.size
    size = dim * ITEM_BYTES[partial.dtype]
    received, at = request.temporary(partial.dtype, ranks * mine, dim), request.temporary("int64", ranks)
    request.communicator.all_to_all(partial.pointer, counts, received.pointer, np.full(ranks, mine, np.int64), size)
    at.write(np.arange(ranks) * mine * size)
    members = groups.members(group_parts.PARTS, 1)
    for field, value in (("base", received.pointer), ("at", at.pointer), ("n_parts", ranks),
                         ("half", partial.dtype == "float16"), ("dim", dim), ("n_bags", mine),
                         ("offsets", bags.offsets.pointer if bags.mean else 0), ("out", out.pointer)):
        members[field] = value
    group_parts.sum_parts(members)

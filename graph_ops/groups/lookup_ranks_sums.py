"""Lookups by bag of many tables on several ranks, and their gradients, by reduce_scatter: one exchange of keys with
their bags for all, one of partial sums, one of gradients. In C++ (lane_ranks_sums.cc) it is done likewise.

Each rank tells each other how many keys it has for it, and how many bags: once for all members, on the host. Partial
sums of other ranks' bags lie side by side, [rank][member][bags], as do gradients that all ranks are given. This rank's
own sums do not travel. Sums are added up in the order of the ranks, and what is left to the operation itself is what
needs more: keys without a row in an evaluation, a full shard; on all ranks alike.
"""
from typing import Any, List

import numpy as np

from sok1x.graph_ops.bridge import timeline
from sok1x.graph_ops.bridge.errors import INTERNAL, CallError
from sok1x.graph_ops.exchanges import reduce_scatter
from sok1x.graph_ops.exchanges.lookup import counts_for_this_rank
from sok1x.graph_ops.groups.lookup_ranks import come, insert_new
from sok1x.graph_ops.groups.lookup_run import GONE, LookupRun, again


def forward(members: List[Any], world: Any) -> LookupRun:
    """The forward of decided members. Returns its run."""
    run, size, ranks = again(members), len(members), world.size
    numbers = np.array([taken.request.exchange for taken in members])
    told = np.empty((2 * size, ranks), np.int64)
    said, communicator = run.team.said(ranks), members[0].request.communicator
    training = int(members[0].headers[0, 0])
    run.call("pairs_count", ranks, np.array([_keys_at(taken) for taken in members]), told)
    heard = counts_for_this_rank(world, told)
    run.call("pairs_ask", world.rank, told, heard, numbers, *said.exchange_at)
    run.exchange(communicator, said)
    come(members, timeline.KEYS)
    for taken, sends, receives in zip(members, told, heard):
        reduce_scatter.count_pairs(taken.config.table.name, world.rank, sends, receives)
    run.call("pairs_answer", training, *said.found_at, *said.exchange_at)
    left = bytes([count > 0 for count in said.missing.tolist()])
    if not run.team.hashed and any(left):
        raise CallError(INTERNAL, GONE)
    everywhere = insert_new(run, world, said, left)
    run.exchange(communicator, said)
    come(members, timeline.ROWS)
    for taken, bags in zip(members, heard[size:]):
        reduce_scatter.count_sums(taken.config.table, world.rank, bags, taken.config.dtype, gathers=False)
    left = everywhere()
    run.call("sums_take", left)
    return run.leave(left)


def backward(members: List[Any], world: Any) -> LookupRun:
    """The gradients of decided members. Returns its run."""
    run, ranks = again(members), world.size
    headers = np.stack([taken.headers for taken in members])  # [T, N, h], that all rows are known first
    left, said = np.empty(len(members), np.uint8), run.team.said(ranks)
    pointers_at, _, takes_at = said.exchange_at
    width = headers.shape[2]
    run.call("gradients_send", world.rank, ranks, width, width - 1, headers, left, pointers_at, takes_at)
    give, take, unit = said.pointers.tolist()
    members[0].request.communicator.all_gather(give, take, said.takes, unit)
    for taken, other in zip(members, left.tolist()):
        if not other:
            request = taken.request
            bags = request.host_inputs[0].numpy()[1:1 + ranks]
            reduce_scatter.count_sums(taken.config.table, world.rank, bags, request.inputs[0].dtype, gathers=True)
    come(members, timeline.ROWS)
    run.call("gradients_take")
    return run.leave(left.tolist())


def _keys_at(taken: Any) -> int:
    """Where a member's keys are that its own `prepare` has brought in order; 0: as they were given."""
    if taken.prepared is not None:
        return 0
    at = taken.request.state.keys.pointer
    return 0 if at == taken.request.inputs[1].pointer else at

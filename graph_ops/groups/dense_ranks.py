"""The dense lookup of many tables on several ranks: one exchange of keys and one of rows for all.

Each member's keys are made distinct and grouped by owner when the ops are taken in, all members' in the same
launches. Once the ops are decided together, what goes to a rank lies side by side, [rank][member][rows], so that one
all_to_all serves all members, whatever their dims. New keys are inserted by their owners, unless a shard is full on
any rank; such a member, and one that evaluates keys without a row, is left, on all ranks alike, to the operation
itself. Bits are those of the single lookup: rows are copied, numbers and orders are the same.
"""
from typing import Any, List

import numpy as np

from sok1x.cuda_kernels import groups
from sok1x.graph_ops.exchanges.asked import AskedOfOwners
from sok1x.graph_ops.exchanges.training import training_of
from sok1x.graph_ops.groups import lookup_ranks
from sok1x.graph_ops.groups.dense_run import TOO_MANY_DIMENSIONS, DenseRun, again

_INVERSE = 1  # an output of a lookup: dense_lookup.py


def forward_key(taken: Any) -> Any:
    """What members of a group must have in common, here before they are announced and there when they are decided."""
    if taken.headers is None:
        return "training", training_of(taken.request, taken.config)
    flags = taken.headers[:, 0].tolist()
    return ("training", flags[0] != 0) if flags.count(flags[0]) == len(flags) else None


def prepare(members: List[Any], world: Any) -> None:
    """Makes all members' keys distinct, groups them by owner, and sets the members' headers."""
    run, size, ranks = DenseRun(members), len(members), world.size
    counts, begins = np.empty((2, ranks, size), np.int64)
    outside, inverse = np.empty((2, size), np.int64)
    sent = np.empty(1, np.int64)
    if run.call("prepare", ranks, counts, begins, outside, inverse, sent) == TOO_MANY_DIMENSIONS:
        return
    headers = np.empty((size, 2 + ranks), np.int64)  # as devices.mark makes them
    headers[:, 0] = members[0].request.gpu is not None
    headers[:, 1] = training_of(members[0].request, members[0].config)
    headers[:, 2:] = counts.T
    run.kept = np.full(size, sent[0]), np.ascontiguousarray(begins.T), inverse
    places = zip(members, headers, outside.tolist(), begins.T, counts.T, inverse.tolist())
    for number, (taken, header, bad, begin, count, at) in enumerate(places):
        if not bad:  # else its own `prepare` says which key, and where it stands
            taken.header = header
            taken.prepared = lookup_ranks.Prepared(int(sent[0]), begin, count, at, number, size, run)
    run.prepared()


def forward(members: List[Any], world: Any) -> DenseRun:
    """The forward of decided members. Returns its run."""
    run, size, ranks = again(members), len(members), world.size
    headers = np.stack([taken.headers for taken in members])  # [T, N, 1 + N]
    numbers = np.array([taken.request.exchange for taken in members])
    sent, begins, inverse = run.kept if run.kept is not None else _kept(members)
    pointers, (gives, takes) = np.empty(3, np.int64), np.empty((2, ranks), np.int64)
    communicator, training = members[0].request.communicator, bool(headers[0, 0, 0])
    if run.call("forward_ask", world.rank, ranks, 1 + ranks, headers, numbers, sent, begins, inverse,
                run.kept is not None, pointers, gives, takes) == TOO_MANY_DIMENSIONS:
        return run.leave(np.ones(size, bool))  # on all ranks: keys' dimensions are part of the plan
    run.exchange(communicator, pointers, gives, takes)
    missing, fresh = np.empty((2, size), np.int64)
    run.call("forward_answer", training, missing, fresh, pointers, gives, takes)
    left, hashed = missing > 0, run.team.facts["hashed"].any()
    if training and hashed:  # before a key is inserted on one rank, none may have a full shard
        left = lookup_ranks.left_anywhere(left, world)
        run.insert(world, fresh, left)
    run.exchange(communicator, pointers, gives, takes)
    if hashed and not training:
        left = lookup_ranks.left_anywhere(left, world)
    run.call("forward_take", left)
    return run.leave(left)


def _kept(members: List[Any]) -> Any:
    """(sent, begins, inverse) as `DenseRun.kept`, of members that have been prepared in some other way."""
    prepared = [lookup_ranks.prepared_of(taken) for taken in members]
    return (np.array([one.sent for one in prepared]), np.stack([one.begins for one in prepared]),
            np.array([one.inverse for one in prepared]))


def hand_over(taken: Any, world: Any) -> None:
    """Leaves a member's keys as its operation's own `prepare` does: owner after owner, nothing between."""
    request, prepared = taken.request, taken.prepared
    count = int(prepared.counts.sum())
    keys = request.temporary("int64", count)
    lookup_ranks.collect_keys([prepared], lambda blocks: groups.lie_at(blocks, keys.pointer))
    lookup = request.state = taken.call.operation.Lookup(request, taken.config, world)
    lookup.start()
    lookup.state = AskedOfOwners(keys, count, lookup.leave("inverse", lookup.keys.size),
                                 np.ascontiguousarray(prepared.counts))

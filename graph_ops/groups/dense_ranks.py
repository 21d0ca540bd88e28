"""The dense lookup of many tables on several ranks: one exchange of keys and one of rows for all.

Each member's keys are made distinct and grouped by owner when the ops are taken in, all members' in the same
launches. Once the ops are decided together, what goes to a rank lies side by side, [rank][member][rows], so that one
all_to_all serves all members, whatever their dims. Rows that all owners know are read at once; a member of which any
rank misses a key (it must be inserted, or reads its initial values) is left, on all ranks alike, to the operation
itself. Bits are those of the single lookup: rows are copied, numbers and orders are the same.
"""
import numpy as np

from sok1x.cuda_kernels import group_gather, groups
from sok1x.graph_ops.exchanges.asked import AskedOfOwners
from sok1x.graph_ops.exchanges.training import training_of
from sok1x.graph_ops.groups import lookup_ranks
from sok1x.graph_ops.groups.batch import Batch
from sok1x.graph_ops.groups.dense_alone import MOST_DIMENSIONS

# Outputs of a lookup, by place: dense_lookup.py.
_EMBEDDINGS, _INVERSE, _ROWS, _REQUESTED, _COUNTS = range(5)


def forward_key(taken):
    """What members of a group must have in common, here before they are announced and there when they are decided."""
    if taken.headers is None:
        training_of(taken.request, taken.config)  # who cannot say it fails by itself
        return True
    flags = set(taken.headers[:, 0].tolist())
    return flags.pop() if len(flags) == 1 else None


def prepare(members, world):
    """Makes all members' keys distinct, groups them by owner, and sets the members' headers."""
    batch, size = Batch(members), len(members)
    keys = batch.inputs[:, 0]
    if keys["rank"].max() > MOST_DIMENSIONS:
        return
    lengths = keys["elements"]
    inverse = batch.outputs([_INVERSE], lengths.reshape(size, 1, 1))[:, 0]
    asked = lookup_ranks.ask_owners(batch, world, keys, lengths, inverse)
    for number, taken in enumerate(members):
        if asked.outside[number]:
            continue  # its own `prepare` says which key, and where it stands
        header = taken.header = np.empty(1 + world.size, np.int64)
        header[0], header[1:] = training_of(taken.request, taken.config), asked.counts[:, number]
        taken.prepared = asked.of(batch, number)
    batch.leave(asked.outside)


def forward(members, world):
    """The forward of decided members. Returns its Batch."""
    batch, size = Batch(members), len(members)
    if batch.inputs[:, 0]["rank"].max() > MOST_DIMENSIONS:  # on all ranks: keys' dimensions are part of the plan
        return batch.leave(np.ones(size, bool))
    sent = np.stack([taken.headers[:, 1:] for taken in members])  # [T, from, to]
    prepared = [lookup_ranks.prepared_of(taken) for taken in members]
    dims, half = batch.columns.dims, lookup_ranks.halves(batch)
    out, requested = _forward_outputs(batch, dims, sent[:, :, world.rank].sum(axis=1))
    lookup_ranks.save_counts(batch, world, sent, _COUNTS)
    values, left = lookup_ranks.ask(batch, world, prepared, sent, requested)
    batch.outputs([_ROWS], np.zeros((size, 1, 1), np.int64), only=~left)
    records = groups.members(group_gather.GATHER, size)
    values.lie_in(records["source"])
    groups.lie_at(records["out"], out)
    records["dim"], records["source_half"], records["out_half"] = dims, half, half
    records["n"] = np.where(left, 0, batch.inputs[:, 0]["elements"])
    records["rows"] = [one.inverse for one in prepared]
    group_gather.gather(records)
    return batch.leave(left)


def hand_over(taken, world):
    """Leaves a member's keys as its operation's own `prepare` does: owner after owner, nothing between."""
    request, prepared = taken.request, taken.prepared
    count = int(prepared.counts.sum())
    keys = request.temporary("int64", count)
    lookup_ranks.collect_keys([prepared], lambda blocks: groups.lie_at(blocks, keys.pointer))
    lookup = request.state = taken.call.operation.Lookup(request, taken.config, world)
    lookup.start()
    request.keep_output(_INVERSE, prepared.inverse, (lookup.keys.size,))
    lookup.state = AskedOfOwners(keys, count, lookup.leave("inverse", lookup.keys.size),
                                 np.ascontiguousarray(prepared.counts))


def _forward_outputs(batch, dims, received):
    """Allocates embeddings and `requested` of all members: pointers [T] to each."""
    size = len(dims)
    keys = batch.inputs[:, 0]
    shapes, dimensions = np.zeros((size, 2, 8), np.int64), np.ones((size, 2), np.int32)
    shapes[:, 0] = keys["dims"]
    shapes[np.arange(size), 0, keys["rank"]] = dims
    dimensions[:, 0] = keys["rank"] + 1
    shapes[:, 1, 0] = received
    pointers = batch.outputs([_EMBEDDINGS, _REQUESTED], shapes, dimensions)
    return pointers[:, 0], pointers[:, 1]

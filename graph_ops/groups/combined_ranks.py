"""The combined lookup of many tables on several ranks, by all2all: one exchange of keys and one of rows for all.

As the dense lookup's (dense_ranks.py), but rows are summed by bag at the end. Offsets of bags are found when the ops
are taken in, in the same launches as distinct keys. Which exchange a lookup goes by is known when all ranks have seen
its header: one that goes by reduce_scatter then is run by itself. Bits are those of the single lookup: a bag's rows are
added up in the order of its keys, and a gradient's terms too.
"""
import numpy as np

from sok1x.cuda_kernels import group_combine, groups
from sok1x.graph_ops.bridge import devices
from sok1x.graph_ops.exchanges import choice
from sok1x.graph_ops.exchanges.asked import AskedOfOwners
from sok1x.graph_ops.exchanges.lookup import row_bytes
from sok1x.graph_ops.exchanges.training import training_of
from sok1x.graph_ops.groups import lookup_ranks
from sok1x.graph_ops.groups.batch import Batch
from sok1x.graph_ops.groups.combined_alone import embedding_shapes
from sok1x.graph_ops.groups.combined_gradients import bag_terms, fitting, sum_over_ranks
from sok1x.graph_ops.groups.sparse_batches import SparseBatches, means

# Outputs of a lookup, by place: combined_lookup.py.
_EMBEDDINGS, _INVERSE, _OFFSETS, _ROWS, _REQUESTED, _ALL_OFFSETS, _ROUTE = range(7)
_TRAINING, _BAGS, _KEYS, _DISTINCT, _COUNTS = range(5)  # numbers of a header; the last are one of each rank


def prepare(members, world):
    """Finds all members' bags, makes their keys distinct, groups them by owner, and sets the members' headers."""
    batch, size = Batch(members), len(members)
    sparse = SparseBatches(batch)
    shapes = np.stack([sparse.lengths, sparse.bags + 1], axis=1).reshape(size, 2, 1)
    inverse, offsets = batch.outputs([_INVERSE, _OFFSETS], shapes, only=sparse.fits).T
    counters = batch.counters(3 * size)
    sparse.start_offsets(offsets, counters.pointer)
    asked = lookup_ranks.ask_owners(batch, world, sparse.keys, sparse.lengths, inverse)
    left = ~sparse.usable(counters.read()) | asked.outside
    headers = np.empty((size, _COUNTS + world.size), np.int64)
    headers[:, _BAGS], headers[:, _KEYS] = sparse.bags, sparse.lengths
    headers[:, _DISTINCT], headers[:, _COUNTS:] = asked.counts.sum(axis=0), asked.counts.T
    for number, taken in enumerate(members):
        if left[number]:
            continue  # its own `prepare` puts it in order, or says what is wrong
        headers[number, _TRAINING] = training_of(taken.request, taken.config)
        taken.header = devices.mark(taken.request, headers[number])
        taken.prepared = asked.of(batch, number)._replace(offsets=int(offsets[number]))
    batch.leave(left)


def forward(members, world):
    """The forward of decided members. Returns its Batch."""
    batch, size = Batch(members), len(members)
    headers = np.stack([taken.headers for taken in members])
    bags, keys = headers[:, world.rank, _BAGS], headers[:, world.rank, _KEYS]
    sent = headers[:, :, _COUNTS:]  # [T, from, to]
    prepared = [_prepared_of(taken) for taken in members]
    out, requested = _forward_outputs(batch, bags, sent[:, :, world.rank].sum(axis=1))
    lookup_ranks.save_counts(batch, world, sent, _ROUTE, [choice.ALL2ALL.number])
    values, left = lookup_ranks.ask(batch, world, prepared, sent, requested)
    batch.outputs([_ROWS], np.zeros((size, 1, 1), np.int64), only=~left)
    records = groups.members(group_combine.COMBINE, size)
    values.lie_in(records["source"])
    groups.lie_at(records["out"], out)
    records["dim"], records["mean"] = batch.columns.dims, means(batch)
    records["source_half"] = records["out_half"] = lookup_ranks.halves(batch)
    records["n_bags"], records["n_keys"] = np.where(left, 0, bags), keys
    records["inverse"] = [one.inverse for one in prepared]
    records["offsets"] = [one.offsets for one in prepared]
    group_combine.combine(records)
    return batch.leave(left)


def _prepared_of(taken):
    """As `lookup_ranks.prepared_of`, of bags."""
    prepared = lookup_ranks.prepared_of(taken)
    if taken.prepared is None:
        prepared = prepared._replace(offsets=taken.request.state.layout.offsets.pointer)
    return prepared


def _forward_outputs(batch, bags, received):
    """Allocates embeddings, `requested` and `all_offsets` of all members: pointers [T] to the first two."""
    size = len(bags)
    slots = batch.columns.of("slots", lambda config: config.slot_num)
    shapes, ranks = np.zeros((size, 3, 3), np.int64), np.ones((size, 3), np.int32)
    shapes[:, 0], ranks[:, 0] = embedding_shapes(batch, bags, slots), 3
    shapes[:, 1, 0] = received
    pointers = batch.outputs([_EMBEDDINGS, _REQUESTED, _ALL_OFFSETS], shapes, ranks)
    return pointers[:, 0], pointers[:, 1]


def hand_over(taken, world):
    """Leaves a member's batch as its operation's own `prepare` does."""
    request, config, prepared = taken.request, taken.config, taken.prepared
    length, bags = (int(taken.headers[world.rank, place]) for place in (_KEYS, _BAGS))
    request.keep_output(_INVERSE, prepared.inverse, (length,))
    request.keep_output(_OFFSETS, prepared.offsets, (bags + 1,))
    lookup = request.state = taken.call.operation.Lookup(request, config, world)
    lookup.take_over(bags)
    inverse = lookup.leave("inverse", length)
    if choice.to_run(world, config.exchange, row_bytes(config.table, config.dtype),
                     taken.headers) is choice.ALL2ALL:  # the other way needs no distinct keys
        count = int(prepared.counts.sum())
        sent = request.temporary("int64", count)
        lookup_ranks.collect_keys([prepared], lambda blocks: groups.lie_at(blocks, sent.pointer))
        lookup.state = AskedOfOwners(sent, count, inverse, np.ascontiguousarray(prepared.counts))


def exchange_numbers(taken):
    """The numbers (a set) of the exchanges by which a gradient's lookup has gone: on all ranks, once it is decided."""
    if taken.headers is None:
        return {int(taken.request.host_inputs[0].numpy()[0])}
    return set(taken.headers[:, 1].tolist())


def prepare_backward(members):
    """Sets the headers of gradients that fit their lookups; the others' own `prepare` says what does not."""
    batch = Batch(members)
    fits = fitting(batch.inputs[:, 0], batch.inputs[:, 2], batch.columns.dims)
    for taken, fit in zip(members, fits):
        if fit:
            header = np.concatenate([[True], taken.request.host_inputs[0].numpy()]).astype(np.int64)
            taken.header = devices.mark(taken.request, header)
            taken.prepared = True


def backward(members, world):
    """The gradients of decided members. Returns its Batch."""
    batch = Batch(members)
    gradients, inverse, offsets, rows, requested = (batch.inputs[:, place] for place in range(5))
    headers = np.stack([taken.headers[:, 2:] for taken in members])
    return sum_over_ranks(batch, world, headers, bag_terms(batch, gradients, inverse, offsets), rows, requested)

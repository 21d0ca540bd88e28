"""The combined lookup of many tables on one rank: keys found, and rows summed by bag, for all of them at once.

Bits are those of the single lookup: a bag's rows are added up in the order of its keys. A member whose batch is not as
it mostly is, or of which a key has no row, is left to the operation itself.
"""
import numpy as np

from sok1x.cuda_kernels import group_combine, group_find, group_sum, groups
from sok1x.graph_ops.bridge.bridge import ITEM_BYTES
from sok1x.graph_ops.exchanges.training import training_of
from sok1x.graph_ops.groups.batch import Batch
from sok1x.graph_ops.groups.combined_gradients import bag_terms, fitting
from sok1x.graph_ops.groups.lookup_ranks import key_types
from sok1x.graph_ops.groups.sparse_batches import SparseBatches, means

# Outputs of a lookup, by place: combined_lookup.py.
_EMBEDDINGS, _AT, _OFFSETS, _ROWS, _REQUESTED, _ALL_OFFSETS, _ROUTE = range(7)


def forward(members):
    """The forward of `members`. Returns its Batch."""
    training, size = training_of(members[0].request, members[0].config), len(members)
    batch = Batch(members)
    sparse = SparseBatches(batch)
    out, at, offsets = _outputs(batch, sparse)
    counters = batch.counters(4 * size)
    sparse.start_offsets(offsets, counters.pointer)
    with batch.variables(exclusive=training) as variables:
        _find(batch, sparse, variables, at, counters.pointer + 24 * size)
        good = sparse.fits & batch.ready
        if batch.gpu is None:  # a GPU need not know: its kernel does no harm with offsets that are none
            good &= sparse.usable(counters.read()[:3 * size])
        records = groups.members(group_combine.COMBINE, size)
        groups.lie_at(records["source"], variables[:, 0]["data"])
        groups.lie_at(records["out"], out)
        records["dim"], records["inverse"], records["offsets"] = batch.columns.dims, at, offsets
        records["n_bags"], records["n_keys"] = np.where(good, sparse.bags, 0), sparse.lengths
        records["mean"] = means(batch)
        records["out_half"] = batch.columns.of("half", lambda config: ITEM_BYTES[config.dtype] == 2)
        group_combine.combine(records)
        counts = counters.read()
    good &= sparse.usable(counts[:3 * size]) & (counts[3 * size:] == 0)
    return batch.leave(~good)


def _find(batch, sparse, variables, at, misfits):
    """Finds the row of each key; misfits: a pointer to int64 [T], the number of keys without one."""
    records = groups.members(group_find.FIND, len(at))
    groups.lie_at(records["keys"], sparse.keys["data"])
    records["key_type"] = key_types(sparse.keys)
    records["n"] = np.where(batch.ready, sparse.lengths, 0)
    records["index"] = np.where(batch.columns.hashed, variables[:, 1]["data"], 0)
    records["capacity"] = variables[:, 1]["dims"][:, 0]
    records["ranks"], records["limit"] = 1, batch.columns.rows
    records["rows"] = at
    group_find.find(records, misfits)


def _outputs(batch, sparse):
    """Allocates the outputs of all members that fit. Returns pointers to embeddings, row numbers and offsets."""
    size = len(sparse.bags)
    shapes, ranks = np.zeros((size, 7, 3), np.int64), np.ones((size, 7), np.int32)
    shapes[:, _EMBEDDINGS] = embedding_shapes(batch, sparse.bags, sparse.slots)
    ranks[:, _EMBEDDINGS] = 3
    shapes[:, _AT, 0], shapes[:, _OFFSETS, 0] = sparse.lengths, sparse.bags + 1
    pointers = batch.outputs(range(7), shapes, ranks, only=sparse.fits)
    return pointers[:, _EMBEDDINGS], pointers[:, _AT], pointers[:, _OFFSETS]


def embedding_shapes(batch, bags, slots):
    """[B, S, D] of each member's embeddings, int64 [T, 3]. bags, slots: int64 [T]."""
    return np.stack([bags // slots, slots, batch.columns.dims], axis=1)


def backward(members):
    """The gradients of `members`, summed by row. Returns its Batch."""
    batch, size = Batch(members), len(members)
    gradients, inverse, offsets, rows = (batch.inputs[:, place] for place in range(4))
    fits = fitting(gradients, offsets, batch.columns.dims)
    shapes = np.stack([rows["elements"], batch.columns.dims], axis=1).reshape(size, 1, 2)
    values = batch.outputs([0], shapes, np.full((size, 1), 2, np.int32), only=fits)[:, 0]
    records = bag_terms(batch, gradients, inverse, offsets)
    records["n"][~fits] = records["n_bags"][~fits] = 0
    records["num_segments"] = np.where(fits, rows["elements"], 0)
    groups.lie_at(records["sums"], values)
    group_sum.segment_sum(records)
    return batch.leave(~fits)

"""The dense lookup of many tables on one rank: keys found and rows copied for all of them at once.

Bits are those of the single lookup: a row is copied, and row numbers are the index's. A member of which a key has no
row is left to the operation itself, which inserts, reads initial values, or says what is wrong.
"""
import numpy as np

from sok1x.cuda_kernels import backend, group_find, group_sum, groups
from sok1x.graph_ops.bridge.bridge import ITEM_BYTES, NUMBERS
from sok1x.graph_ops.exchanges.training import training_of
from sok1x.graph_ops.groups.batch import Batch

# Outputs of a lookup, by place: dense_lookup.py.
_EMBEDDINGS, _AT, _ROWS, _REQUESTED, _COUNTS = range(5)
_FLOAT, _HALF = NUMBERS["float32"], NUMBERS["float16"]
MOST_DIMENSIONS = 7  # of keys: the embeddings have one more


def key(taken):
    """What members of a group must have in common on one rank: whether they train."""
    return "training", training_of(taken.request, taken.config)


def forward(members):
    """The forward of `members`. Returns its Batch."""
    training = training_of(members[0].request, members[0].config)
    batch = Batch(members)
    keys, dims = batch.inputs[:, 0], batch.columns.dims
    if keys["rank"].max() > MOST_DIMENSIONS:
        return batch.leave(np.ones(len(members), bool))
    out, at = _outputs(batch, keys, dims)
    with batch.variables(exclusive=training) as variables:
        records = groups.members(group_find.FIND, len(members))
        groups.lie_at(records["keys"], keys["data"])
        records["key_type"] = batch.columns.of("key type", lambda config: backend.KEY_TYPES[
            config.table.key_dtype])
        records["n"] = np.where(batch.ready, keys["elements"], 0)
        records["index"] = np.where(batch.columns.hashed, variables[:, 1]["data"], 0)
        records["capacity"] = variables[:, 1]["dims"][:, 0]
        records["ranks"], records["limit"] = 1, batch.columns.rows
        records["rows"] = at
        records["table"], records["dim"] = variables[:, 0]["data"], dims
        groups.lie_at(records["out"], out)
        records["out_half"] = batch.columns.of("half", lambda config: ITEM_BYTES[config.dtype] == 2)
        misfits = batch.counters()
        group_find.look_up(records, misfits.pointer)
        misfits = misfits.read()
    return batch.leave((misfits > 0) | ~batch.ready)


def _outputs(batch, keys, dims):
    """Allocates the outputs of all members. Returns pointers to embeddings and row numbers."""
    size = len(dims)
    shapes = np.zeros((size, 5, 8), np.int64)
    ranks = np.ones((size, 5), np.int32)
    number, last = np.arange(size), keys["rank"]
    shapes[:, _EMBEDDINGS] = keys["dims"]
    shapes[number, _EMBEDDINGS, last] = dims
    ranks[:, _EMBEDDINGS] = last + 1
    shapes[:, _AT, 0] = keys["elements"]
    pointers = batch.outputs(range(5), shapes, ranks)
    return pointers[:, _EMBEDDINGS], pointers[:, _AT]


def backward(members):
    """The gradients of `members`, summed by row. Returns its Batch."""
    batch, size = Batch(members), len(members)
    gradients, inverse, rows = (batch.inputs[:, place] for place in range(3))
    dims = batch.columns.dims
    fits = fitting(gradients, inverse["elements"], dims)
    shapes = np.stack([rows["elements"], dims], axis=1).reshape(size, 1, 2)
    values = batch.outputs([0], shapes, np.full((size, 1), 2, np.int32), only=fits)[:, 0]
    records = groups.members(group_sum.SUM, size)
    groups.lie_at(records["values"], gradients["data"])
    records["values_half"], records["dim"] = gradients["dtype"] == _HALF, dims
    records["segments"] = inverse["data"]
    records["n"] = np.where(fits, inverse["elements"], 0)
    records["num_segments"] = np.where(fits, rows["elements"], 0)
    groups.lie_at(records["sums"], values)
    group_sum.segment_sum(records)
    return batch.leave(~fits)


def fitting(gradients, lengths, dims):
    """bool [T]: which gradients (`bulk.TENSOR` [T]) have as many numbers as the lookup's embeddings, of their types."""
    return (gradients["elements"] == lengths * dims) & np.isin(gradients["dtype"], (_FLOAT, _HALF))

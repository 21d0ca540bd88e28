"""The gradients of many tables' dense lookups on several ranks: one exchange for all; forward is in dense_ranks.py."""
import numpy as np

from sok1x.cuda_kernels import group_sum, groups
from sok1x.graph_ops.bridge.bridge import NUMBERS
from sok1x.graph_ops.groups.batch import Batch
from sok1x.graph_ops.groups.buffers import ALIGN, Buffer
from sok1x.graph_ops.groups.dense_alone import fitting

_HALF = NUMBERS["float16"]


def prepare_backward(members):
    """Sets the headers of gradients that fit their lookups; the others' own `prepare` says what does not."""
    batch = Batch(members)
    fits = fitting(batch.inputs[:, 0], batch.inputs[:, 1]["elements"], batch.columns.dims)
    for taken, fit in zip(members, fits):
        if fit:
            taken.header = np.concatenate([[True], taken.request.host_inputs[0].numpy()]).astype(np.int64)
            taken.prepared = True


def backward(members, world):
    """The gradients of decided members. Returns its Batch."""
    batch, size, ranks = Batch(members), len(members), world.size
    gradients, inverse, rows, requested = (batch.inputs[:, place] for place in range(4))
    dims = batch.columns.dims
    half = gradients["dtype"] == _HALF
    headers = np.stack([taken.headers[:, 1:] for taken in members])  # [T, N, 2 N + 1]
    bad = (headers[:, :, :ranks] != headers[:, :, ranks:-1].transpose(0, 2, 1)).any(axis=(1, 2))
    bad |= headers[:, :, -1].min(axis=1) != headers[:, :, -1].max(axis=1)
    mine = np.where(bad[:, None], 0, headers[:, world.rank])
    gives, takes = mine[:, :ranks].T, mine[:, ranks:-1].T  # [N, T]
    row_bytes = dims * np.where(half, 2, 4)
    sent, received = Buffer(batch, gives, row_bytes), Buffer(batch, takes, row_bytes)
    records = groups.members(group_sum.SUM, size)
    groups.lie_at(records["values"], gradients["data"])
    records["values_half"], records["dim"] = half, dims
    records["segments"], records["n"] = inverse["data"], np.where(bad, 0, inverse["elements"])
    records["num_segments"] = gives.sum(axis=0)
    sent.lie_in(records["sums"])
    if half.any():
        _sum_wide(batch, records, half)
    group_sum.segment_sum(records)
    communicator = members[0].request.communicator
    communicator.all_to_all(sent.pointer, sent.units, received.pointer, received.units, ALIGN)
    shapes = np.stack([rows["elements"], dims], axis=1).reshape(size, 1, 2)
    values = batch.outputs([0], shapes, np.full((size, 1), 2, np.int32), only=~bad)[:, 0]
    records = groups.members(group_sum.SUM, size)
    received.lie_in(records["values"])
    records["values_half"], records["dim"] = half, dims
    records["segments"], records["n"] = requested["data"], np.where(bad, 0, requested["elements"])
    records["num_segments"] = np.where(bad, 0, rows["elements"])
    groups.lie_at(records["sums"], values)
    group_sum.segment_sum(records)
    return batch.leave(bad)


def _sum_wide(batch, records, half):
    """Where gradients are float16, they are summed as float32 elsewhere, and rounded once into what is sent."""
    floats = np.where(half, records["num_segments"] * records["dim"], 0)
    starts = groups.running_sum(floats)
    wide = batch.temporary("float32", int(starts[-1])) + 4 * starts[:-1]
    records["half"][half] = records["sums"][half]
    records["sums"]["base"] = np.where(half, wide, records["sums"]["base"])
    records["sums"]["count"] = np.where(half, 0, records["sums"]["count"])

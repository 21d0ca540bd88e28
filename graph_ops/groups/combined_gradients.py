"""The gradients of a group's combined lookups, as sums: a bag's gradient counts for each of its keys."""
import numpy as np

from sok1x.cuda_kernels import group_sum, groups
from sok1x.graph_ops.bridge.bridge import NUMBERS
from sok1x.graph_ops.groups.buffers import ALIGN, Buffer
from sok1x.graph_ops.groups.sparse_batches import means

_FLOAT, _HALF = NUMBERS["float32"], NUMBERS["float16"]


def fitting(gradients, offsets, dims):
    """bool [T]: which gradients (`bulk.TENSOR` [T]) have as many numbers as the lookup's embeddings, of their types."""
    return (gradients["elements"] == (offsets["elements"] - 1) * dims) & np.isin(gradients["dtype"], (_FLOAT, _HALF))


def bag_terms(batch, gradients, inverse, offsets):
    """SUM [T]: what this rank adds up, each bag's gradient to the sums of its keys; where sums go is open.

    Args:
      gradients, inverse, offsets: `bulk.TENSOR` [T].
    """
    records = groups.members(group_sum.SUM, len(batch.members))
    groups.lie_at(records["values"], gradients["data"])
    records["values_half"], records["dim"] = gradients["dtype"] == _HALF, batch.columns.dims
    records["segments"], records["n"] = inverse["data"], inverse["elements"]
    records["offsets"], records["n_bags"] = offsets["data"], offsets["elements"] - 1
    records["mean"] = means(batch)
    return records


def sum_over_ranks(batch, world, headers, records, rows, requested):
    """Adds up this rank's terms, sends the sums to their owners, and adds up what comes from all. Returns the batch.

    Args:
      headers: int64 [T, N, 2 N + 1], of each rank keys sent, keys received, the lookup's number.
      records: SUM [T], of `bag_terms`. rows, requested: `bulk.TENSOR` [T], what the lookups have left.
    """
    size, ranks, dims, half = len(records), world.size, records["dim"].copy(), records["values_half"].copy()
    bad = (headers[:, :, :ranks] != headers[:, :, ranks:-1].transpose(0, 2, 1)).any(axis=(1, 2))
    bad |= headers[:, :, -1].min(axis=1) != headers[:, :, -1].max(axis=1)
    mine = np.where(bad[:, None], 0, headers[:, world.rank])
    gives, takes = mine[:, :ranks].T, mine[:, ranks:-1].T  # [N, T]
    row_bytes = dims * np.where(half, 2, 4)
    sent, received = Buffer(batch, gives, row_bytes), Buffer(batch, takes, row_bytes)
    records["n"][bad] = records["n_bags"][bad] = 0
    records["num_segments"] = gives.sum(axis=0)
    sent.lie_in(records["sums"])
    if half.any():
        _sum_wide(batch, records, half != 0)
    group_sum.segment_sum(records)
    communicator = batch.members[0].request.communicator
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

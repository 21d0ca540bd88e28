"""The dense lookup of many tables on several ranks: one exchange of keys and one of rows for all.

Each member's keys are made distinct and grouped by owner when the ops are taken in, all members' in the same
launches. Once the ops are decided together, what goes to a rank lies side by side, [rank][member][rows], so that one
all_to_all serves all members, whatever their dims. Rows that all owners know are read at once; a member of which any
rank misses a key (it must be inserted, or reads its initial values) is left, on all ranks alike, to the operation
itself. Bits are those of the single lookup: rows are copied, numbers and orders are the same.
"""
from typing import Any, NamedTuple

import numpy as np

from sok1x.cuda_kernels import backend, group_find, group_gather, group_partition, group_unique, groups
from sok1x.graph_ops.bridge.bridge import ITEM_BYTES
from sok1x.graph_ops.exchanges.asked import AskedOfOwners
from sok1x.graph_ops.exchanges.training import training_of
from sok1x.graph_ops.groups.batch import Batch
from sok1x.graph_ops.groups.buffers import ALIGN, Buffer
from sok1x.graph_ops.groups.dense_alone import MOST_DIMENSIONS

# Outputs of a lookup, by place: dense_lookup.py.
_EMBEDDINGS, _INVERSE, _ROWS, _REQUESTED, _COUNTS = range(5)


class Prepared(NamedTuple):
    """A member's distinct keys, as the grouped `prepare` leaves them.

    Attributes:
      sent: a pointer to the keys of all members that were prepared together, [owner][member][keys].
      begins: int64 [N], where this member's keys for each owner begin there, in keys. counts: int64 [N], how many.
      inverse: a pointer to output `inverse`. place: which of those members it is. of: how many they are.
      memory: keeps what lies there.
    """

    sent: int
    begins: np.ndarray
    counts: np.ndarray
    inverse: int
    place: int
    of: int
    memory: Any


def prepared_of(taken):
    """The `Prepared` of a member, also of one that was prepared by itself: that may be so on any rank."""
    if taken.prepared is not None:
        return taken.prepared
    asked = taken.request.state.state
    counts = asked.send_counts
    return Prepared(asked.keys.pointer, groups.running_sum(counts)[:-1], counts, asked.inverse.pointer, 0, 0,
                    taken.request)


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
    starts = groups.running_sum(lengths)
    total = int(starts[-1])
    inverse = batch.outputs([_INVERSE], lengths.reshape(size, 1, 1))[:, 0]
    values, sent = batch.temporary("int64", total), batch.temporary("int64", total)
    records = groups.members(group_unique.UNIQUE, size)
    groups.lie_at(records["keys"], keys["data"])
    records["key_type"] = batch.columns.of("key type", lambda config: backend.KEY_TYPES[config.table.key_dtype])
    records["n"], records["values"], records["inverse"] = lengths, values + 8 * starts[:-1], inverse
    distinct = batch.counters()
    group_unique.unique(records, distinct.pointer, batch.temporary("uint8", group_unique.scratch_bytes(lengths)))
    owned = groups.members(group_partition.PARTITION, size)
    owned["values"], owned["n"] = records["values"], lengths
    owned["position"] = batch.temporary("int32", total) + 4 * starts[:-1]
    owned["inverse"], owned["n_inverse"] = inverse, lengths
    counters = batch.counters(world.size * size)
    group_partition.partition(owned, distinct.pointer, world.size, counters.pointer, sent)
    counts = counters.read().reshape(world.size, size)
    begins = groups.running_sum(counts.reshape(-1))[:-1].reshape(world.size, size)
    outside = _outside(batch, members, world, records["values"], counts.sum(axis=0))
    for number, taken in enumerate(members):
        if outside[number]:
            continue  # its own `prepare` says which key, and where it stands
        header = taken.header = np.empty(1 + world.size, np.int64)
        header[0], header[1:] = training_of(taken.request, taken.config), counts[:, number]
        taken.prepared = Prepared(sent, begins[:, number], counts[:, number], int(inverse[number]), number, size,
                                  batch.memory)
    batch.leave(outside)


def _outside(batch, members, world, keys, counts):
    """bool [T]: which members' tables have no index and were asked for keys that they do not have."""
    hashed = batch.columns.hashed
    if hashed.all():
        return np.zeros(len(members), bool)
    records = groups.members(group_find.FIND, len(members))
    groups.lie_at(records["keys"], keys)
    records["key_type"] = backend.KEY_TYPES["int64"]
    records["n"] = np.where(hashed, 0, counts)
    records["ranks"] = world.size
    records["limit"] = world.size * batch.columns.rows
    starts = groups.running_sum(records["n"])
    records["rows"] = batch.temporary("int32", int(starts[-1])) + 4 * starts[:-1]
    misfits = batch.counters()
    group_find.find(records, misfits.pointer)
    return misfits.read() > 0


def forward(members, world):
    """The forward of decided members. Returns its Batch."""
    batch, size = Batch(members), len(members)
    if batch.inputs[:, 0]["rank"].max() > MOST_DIMENSIONS:  # on all ranks: keys' dimensions are part of the plan
        return batch.leave(np.ones(size, bool))
    training = bool(members[0].headers[0, 0])
    sent = np.stack([taken.headers[:, 1:] for taken in members])  # [T, from, to]
    gives, takes = sent[:, world.rank, :].T, sent[:, :, world.rank].T  # [N, T]
    dims = batch.columns.dims
    half = batch.columns.of("half", lambda config: ITEM_BYTES[config.dtype] == 2)
    row_bytes = dims * (4 - 2 * half)
    communicator = members[0].request.communicator
    prepared = [prepared_of(taken) for taken in members]
    out, requested = _forward_outputs(batch, dims, takes.sum(axis=0))
    _save_counts(batch, members, sent, world)
    keys = _exchange_keys(batch, prepared, gives, takes, communicator)
    answers = Buffer(batch, takes, row_bytes)
    with batch.variables(exclusive=training) as variables:
        misfits = _look_up(batch, members, variables, keys, answers, requested, takes.sum(axis=0), world)
    left = _left_anywhere(misfits > 0, world) if batch.columns.hashed.any() else misfits > 0
    batch.outputs([_ROWS], np.zeros((size, 1, 1), np.int64), only=~left)
    values = Buffer(batch, gives, row_bytes)
    communicator.all_to_all(answers.pointer, answers.units, values.pointer, values.units, ALIGN)
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
    collect_keys([prepared], lambda blocks: groups.lie_at(blocks, keys.pointer))
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


def _save_counts(batch, members, sent, world):
    """What ties.py has each lookup save: keys sent to each rank, received from each, and the decision's number."""
    ranks = world.size
    pointers = batch.outputs([_COUNTS], np.full((len(members), 1, 1), 2 * ranks + 1))
    for number, taken in enumerate(members):
        saved = batch.host_array(pointers[number, 0], "int64", 2 * ranks + 1)
        saved[:ranks], saved[ranks:-1] = sent[number, world.rank], sent[number, :, world.rank]
        saved[-1] = taken.request.exchange


def _exchange_keys(batch, prepared, gives, takes, communicator):
    """Sends each rank the keys that it owns. Returns the `Buffer` of those that this rank owns."""
    received, first = Buffer(batch, takes, 8, 8), prepared[0]
    pointer = first.sent
    if len(prepared) != first.of or any(one.memory is not first.memory or one.place != place
                                       for place, one in enumerate(prepared)):
        buffer = Buffer(batch, gives, 8, 8)
        pointer = buffer.pointer
        collect_keys(prepared, buffer.lie_in)
    communicator.all_to_all(pointer, gives.sum(axis=1), received.pointer, received.units, 8)
    return received


def collect_keys(prepared, lie_in):
    """Copies members' distinct keys, a list of `Prepared`, to where `lie_in` says, given a column of BLOCKS."""
    begins = np.ascontiguousarray(np.stack([one.begins for one in prepared]) * 8)
    counts = np.stack([one.counts for one in prepared])
    starts = np.zeros((len(prepared), counts.shape[1] + 1), np.int64)
    np.cumsum(counts, axis=1, out=starts[:, 1:])
    records = groups.members(group_gather.GATHER, len(prepared))
    groups.lie_in_blocks(records["source"], np.array([one.sent for one in prepared]), counts.shape[1],
                         *groups.place(starts, begins))
    records["dim"], records["n"] = 2, starts[:, -1]  # a key moves as two 32-bit numbers
    lie_in(records["out"])
    group_gather.gather(records)


def _look_up(batch, members, variables, keys, answers, requested, counts, world):
    """Finds the rows of received keys and puts their values into `answers`: int64 [T], keys without a row."""
    size = len(members)
    hashed = batch.columns.hashed
    records = groups.members(group_find.FIND, size)
    keys.lie_in(records["keys"])
    records["key_type"] = backend.KEY_TYPES["int64"]
    records["n"] = np.where(batch.ready, counts, 0)
    records["index"] = np.where(hashed, variables[:, 1]["data"], 0)
    records["capacity"], records["ranks"] = variables[:, 1]["dims"][:, 0], world.size
    records["rows"] = requested
    records["table"] = variables[:, 0]["data"]
    records["dim"] = batch.columns.dims
    answers.lie_in(records["out"])
    records["out_half"] = batch.columns.of("half", lambda config: ITEM_BYTES[config.dtype] == 2)
    misfits = batch.counters()
    group_find.look_up(records, misfits.pointer)
    return misfits.read() + ~batch.ready


def _left_anywhere(mask, world):
    """bool [T]: the members that any rank has to leave; equal on all ranks."""
    host, size = world.communicator, len(mask)
    if not host.exchange_counts(np.full(world.size, mask.sum(), np.int64)).any():
        return mask
    mine, all_masks = mask.astype(np.uint8), np.empty((world.size, size), np.uint8)
    host.all_gather(mine.ctypes.data, all_masks.ctypes.data, np.full(world.size, size, np.int64), 1)
    return all_masks.any(axis=0)

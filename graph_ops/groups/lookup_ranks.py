"""What lookups on several ranks share, dense or of bags: a group's keys on their way to their owners, and rows found.
"""
from typing import Any, NamedTuple

import numpy as np

from sok1x.cuda_kernels import backend, group_find, group_gather, group_partition, group_unique, groups
from sok1x.graph_ops.bridge.bridge import ITEM_BYTES, NUMBERS
from sok1x.graph_ops.groups.buffers import ALIGN, Buffer


class Prepared(NamedTuple):
    """A member's distinct keys, as the grouped `prepare` leaves them.

    Attributes:
      sent: a pointer to the keys of all members that were prepared together, [owner][member][keys].
      begins: int64 [N], where this member's keys for each owner begin there, in keys. counts: int64 [N], how many.
      inverse: a pointer to output `inverse`. place: which of those members it is. of: how many they are.
      memory: keeps what lies there.
      offsets: of bags, a pointer to output `offsets`.
    """

    sent: int
    begins: np.ndarray
    counts: np.ndarray
    inverse: int
    place: int
    of: int
    memory: Any
    offsets: int = 0


def prepared_of(taken):
    """The `Prepared` of a member, also of one that was prepared by itself: that may be so on any rank."""
    if taken.prepared is not None:
        return taken.prepared
    asked = taken.request.state.state
    counts = asked.send_counts
    return Prepared(asked.keys.pointer, groups.running_sum(counts)[:-1], counts, asked.inverse.pointer, 0, 0,
                    taken.request)


class Asked(NamedTuple):
    """All members' distinct keys, by owner.

    Attributes:
      sent: a pointer to them, [owner][member][keys]. begins, counts: int64 [N, T], where each block begins there, in
        keys, and how many it has. inverse: as it was given.
      outside: bool [T], which members' tables have no index and were asked for keys that they do not have.
    """

    sent: int
    begins: np.ndarray
    counts: np.ndarray
    inverse: np.ndarray
    outside: np.ndarray

    def of(self, batch, number):
        """The `Prepared` of a member."""
        return Prepared(self.sent, self.begins[:, number], self.counts[:, number], int(self.inverse[number]), number,
                        len(self.inverse), batch.memory)


def key_types(keys):
    """The types of the keys that members were given, which may be narrower than their tables': int64 [T].

    Args:
      keys: `bulk.TENSOR` [T].
    """
    types = np.zeros(len(keys), np.int64)
    for name, number in backend.KEY_TYPES.items():
        types[keys["dtype"] == NUMBERS[name]] = number
    return types


def ask_owners(batch, world, keys, lengths, inverse):
    """Makes all members' keys distinct and groups them by owner, as `asked.ask_owners` does for each.

    Args:
      keys: `bulk.TENSOR` [T]. lengths: int64 [T], how many keys. inverse: pointers [T] to int32 [lengths], filled.

    Returns:
      `Asked`.
    """
    size, starts = len(lengths), groups.running_sum(lengths)
    total = int(starts[-1])
    values, sent = batch.temporary("int64", total), batch.temporary("int64", total)
    records = groups.members(group_unique.UNIQUE, size)
    groups.lie_at(records["keys"], keys["data"])
    records["key_type"] = key_types(keys)
    records["n"], records["values"], records["inverse"] = lengths, values + 8 * starts[:-1], inverse
    distinct = batch.counters()
    group_unique.unique(records, distinct.pointer, batch.temporary("uint8", group_unique.scratch_bytes(lengths)))
    owned = groups.members(group_partition.PARTITION, size)
    owned["values"], owned["n"] = records["values"], lengths
    owned["position"] = batch.temporary("int32", total) + 4 * starts[:-1]
    owned["inverse"], owned["n_inverse"] = inverse, lengths
    owned["parts"], owned["first"] = batch.columns.parts, batch.columns.first
    counters = batch.counters(world.size * size)
    group_partition.partition(owned, distinct.pointer, world.size, counters.pointer, sent)
    counts = counters.read().reshape(world.size, size)
    begins = groups.running_sum(counts.reshape(-1))[:-1].reshape(world.size, size)
    outside = _outside(batch, world, records["values"], counts.sum(axis=0))
    return Asked(sent, begins, counts, inverse, outside)


def _outside(batch, world, keys, counts):
    """bool [T]: which members' tables have no index and were asked for keys that they do not have."""
    hashed = batch.columns.hashed
    if hashed.all():
        return np.zeros(len(counts), bool)
    records = groups.members(group_find.FIND, len(counts))
    groups.lie_at(records["keys"], keys)
    records["key_type"] = backend.KEY_TYPES["int64"]
    records["n"] = np.where(hashed, 0, counts)
    records["ranks"] = parts = parts_of(batch, world)
    records["limit"] = np.where(batch.columns.keys, batch.columns.keys, parts * batch.columns.rows)
    starts = groups.running_sum(records["n"])
    records["rows"] = batch.temporary("int32", int(starts[-1])) + 4 * starts[:-1]
    misfits = batch.counters()
    group_find.find(records, misfits.pointer)
    return misfits.read() > 0


def parts_of(batch, world):
    """Over how many ranks each member's keys are dealt out, int64 [T]."""
    return np.where(batch.columns.parts, batch.columns.parts, world.size)


def save_counts(batch, world, sent, place, exchange=()):
    """What ties.py has each lookup save: keys sent to each rank, received from each, and the decision's number.

    Args:
      sent: int64 [T, from, to], keys of each member. place: of the output. exchange: numbers that come before.
    """
    first, ranks = len(exchange), world.size
    pointers = batch.outputs([place], np.full((len(sent), 1, 1), first + 2 * ranks + 1))
    for number, taken in enumerate(batch.members):
        saved = batch.host_array(pointers[number, 0], "int64", first + 2 * ranks + 1)
        saved[:first] = exchange
        saved[first:first + ranks], saved[first + ranks:-1] = sent[number, world.rank], sent[number, :, world.rank]
        saved[-1] = taken.request.exchange


def halves(batch):
    """1 for each lookup, [T], whose embeddings are float16."""
    return batch.columns.of("half", lambda config: ITEM_BYTES[config.dtype] == 2)


def ask(batch, world, prepared, sent, requested):
    """Asks the owners for the rows of all members' distinct keys, and answers what other ranks ask.

    Args:
      prepared: a list of `Prepared`. sent: as for `save_counts`.
      requested: pointers [T] to int32, filled: the row of each key that this rank was asked for.

    Returns:
      (`Buffer` of the values that this rank has asked for, bool [T]: the members that have to be left, on all ranks).
    """
    training = bool(batch.members[0].headers[0, 0])
    communicator = batch.members[0].request.communicator
    gives, takes = sent[:, world.rank, :].T, sent[:, :, world.rank].T  # [N, T]
    row_bytes = batch.columns.dims * (4 - 2 * halves(batch))
    keys = _exchange_keys(batch, prepared, gives, takes, communicator)
    answers = Buffer(batch, takes, row_bytes)
    with batch.variables(exclusive=training) as variables:
        misfits = _look_up(batch, variables, keys, answers, requested, takes.sum(axis=0), world)
    left = left_anywhere(misfits > 0, world) if batch.columns.hashed.any() else misfits > 0
    values = Buffer(batch, gives, row_bytes)
    communicator.all_to_all(answers.pointer, answers.units, values.pointer, values.units, ALIGN)
    return values, left


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


def _look_up(batch, variables, keys, answers, requested, counts, world):
    """Finds the rows of received keys and puts their values into `answers`: int64 [T], keys without a row."""
    size = len(counts)
    hashed = batch.columns.hashed
    records = groups.members(group_find.FIND, size)
    keys.lie_in(records["keys"])
    records["key_type"] = backend.KEY_TYPES["int64"]
    records["n"] = np.where(batch.ready, counts, 0)
    records["index"] = np.where(hashed, variables[:, 1]["data"], 0)
    records["capacity"], records["ranks"] = variables[:, 1]["dims"][:, 0], parts_of(batch, world)
    records["rows"] = requested
    records["table"] = variables[:, 0]["data"]
    records["dim"] = batch.columns.dims
    answers.lie_in(records["out"])
    records["out_half"] = halves(batch)
    misfits = batch.counters()
    group_find.look_up(records, misfits.pointer)
    return misfits.read() + ~batch.ready


def left_anywhere(mask, world):
    """bool [T]: the members that any rank has to leave; equal on all ranks."""
    host, size = world.communicator, len(mask)
    if not host.exchange_counts(np.full(world.size, mask.sum(), np.int64)).any():
        return mask
    mine, all_masks = mask.astype(np.uint8), np.empty((world.size, size), np.uint8)
    host.all_gather(mine.ctypes.data, all_masks.ctypes.data, np.full(world.size, size, np.int64), 1)
    return all_masks.any(axis=0)

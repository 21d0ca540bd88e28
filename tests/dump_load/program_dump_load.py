"""Dumps tables, and loads what programs on other numbers of ranks have dumped.

    mpiexec -np N python program_dump_load.py FOLDER [N of an earlier program ...]

Of two variables one is dealt out over the ranks and one lies on a rank alone; who loads has them the other way round.
Rows and slots of a key are what this module says of the key, times the number of ranks that dumped.
"""
import os
import sys

import kit_files
import numpy as np
import tensorflow.compat.v1 as tf
from dump_model import ROWS, D, Model, same
from mpi4py import MPI

import sok1x as sok
from sok1x.checkpoint import CheckpointError
from sok1x.checkpoint.files import open_file, stream_writer
from sok1x.graph_ops.transfer import distinct_keys, keyed_files, shard_parts

world = MPI.COMM_WORLD
KEYS = [-2 ** 63, 2 ** 63 - 1, -1, 0, 5, 7, 12, 1000, 2 ** 31]
SLOTS = ("m", "v")
# Small buffers, so that everything takes several rounds.
keyed_files.BUFFER_BYTES, keyed_files.KEYS_AT_ONCE, distinct_keys._COMPARED_AT_ONCE = 5 * 4 * D, 3, 4
shard_parts.CHUNK_BYTES = 2 * 4 * D


def optimizer():
    return tf.train.AdamOptimizer(0.1)


def model(swapped=False, keys=KEYS):
    modes = (None, "localized:{}".format(world.size - 1))
    return Model(optimizer, modes[::-1] if swapped else modes, keys)


def expected(table, keys, factor):
    """{"": rows, slot: values} of keys in their order."""
    base = np.asarray(keys, np.float64)[:, None] % 1009 + [[0.25, 0.5, 0.75]] + table
    return {name: (factor * (base + 2000 * place)).astype(np.float32) for place, name in enumerate(("",) + SLOTS)}


def keys_of(made):
    return [np.arange(ROWS), np.arange(5), np.sort(made.keys.astype(np.int64))]


def mine(made, table, keys):
    return keys[made.tables[table].table.placement.owners(keys, world.size) == world.rank]


def set_values(made, factor):
    """Every key's row and slots, by `load` from files that this rank's own writer has made."""
    folder = os.path.join(sys.argv[1], "set {}".format(world.size))
    if world.rank == 0:
        tables = []
        for number, (table, keys) in enumerate(zip(made.tables, keys_of(made))):
            values = expected(number, keys, factor)
            tables.append(kit_files.Table(kit_files.stem(table.name), keys, values[""], "Adam",
                                          {slot: values[slot] for slot in SLOTS}))
        kit_files.write(folder, tables)
    world.Barrier()
    made.load(folder)
    check(made, factor)


def check(made, factor, slots=True):
    for number, (table, keys) in enumerate(zip(made.tables, keys_of(made))):
        keys = mine(made, number, keys)
        values = expected(number, keys, factor)
        got = {"": made.session.run(table)}
        if slots:
            got.update(made.session.run(made.slots(table)))
        if table is made.hashed:  # index: key and row in each slot
            index = made.session.run(table.index[0])
            index = index[index[:, 1] >= 0]
            assert sorted(index[:, 0]) == keys.tolist()
            rows = dict(index.tolist())
            got = {name: array[[rows[key] for key in keys.tolist()]] for name, array in got.items()}
        for name, array in got.items():
            np.testing.assert_array_equal(array, values[name].reshape(-1, D), err_msg="{} {}".format(table.name, name))


def check_files(folder, made, factor, slots=True):
    """As the reader of the description's reads them; rows of rank 0 first, then those of rank 1, ..."""
    found = kit_files.read(folder)
    assert len(found) == 3
    for number, (table, keys) in enumerate(zip(made.tables, keys_of(made))):
        one = found[kit_files.stem(table.name)]
        assert one.keys.dtype == (np.uint64 if table is not made.hashed and table.mode != "distributed" else np.int64)
        got, values = one.by_key(), expected(number, keys, factor)
        assert set(got) == ({""} | set(SLOTS) if slots else {""}) and one.optimizer == ("Adam" if slots else "None")
        for name in got:
            np.testing.assert_array_equal(got[name], values[name])
        owners = table.table.placement.owners(one.keys.astype(np.int64), world.size)
        assert (np.diff(owners) >= 0).all()


def check_whole(earlier):
    folder = os.path.join(sys.argv[1], "of {}".format(world.size))
    made = model()
    set_values(made, world.size)
    made.dump(folder)
    made.dump(folder + " plain", optimizer=False)
    check_files(folder, made, world.size)
    check_files(folder + " plain", made, world.size, slots=False)
    state = made.state()
    made.train(1)
    made.load(folder)
    assert same(made.state(), state)
    for ranks in map(int, earlier):
        other = model(swapped=True, keys=KEYS[:3])
        other.keys = made.keys
        other.load(os.path.join(sys.argv[1], "of {}".format(ranks)))
        check(other, ranks)
        other = model(swapped=True, keys=())
        other.keys = made.keys
        other.load(os.path.join(sys.argv[1], "of {} plain".format(ranks)), optimizer=False)
        check(other, ranks, slots=False)
    return made, folder


def refused(made, run, words):
    """On all ranks, without a change to tables and files."""
    before = made.state()
    try:
        run()
    except CheckpointError as error:
        assert words in str(error), (world.rank, str(error))
    else:
        raise AssertionError("expected '{}'".format(words))
    assert same(made.state(), before)
    world.Barrier()


class Failing:
    """On one rank a function fails once it has been called some times."""

    def __init__(self, module, name, rank, calls):
        self._module, self._name, self._function = module, name, getattr(module, name)
        self._fails, self._left = world.rank == rank, calls

    def __call__(self, *arguments, **options):
        self._left -= 1
        if self._fails and self._left < 0:
            raise OSError(5, "Input/output error")
        return self._function(*arguments, **options)

    def __enter__(self):
        setattr(self._module, self._name, self)

    def __exit__(self, *_):
        setattr(self._module, self._name, self._function)


def check_faults(made, folder):
    """What fails on one rank fails on all."""
    last = world.size - 1
    who = "" if world.rank == last else "Rank {}: ".format(last)
    for name, calls in (("write", 0), ("write", 3), ("fsync", 0)):
        with Failing(stream_writer.os, name, last, calls):
            refused(made, lambda: made.dump(folder), who + "Cannot write")
        check_files(folder, made, world.size)
    with Failing(open_file, "read_into", last, 4):
        refused(made, lambda: made.load(folder), who)
    assert [name for name in os.listdir(sys.argv[1]) if name.startswith(".")] == []
    world.Barrier()  # what follows may make a folder on a rank that is ahead
    if world.size > 1:
        others = made.tables[:1 + world.rank % 2]
        refused(made, lambda: sok.dump(folder, others, session=made.session), "all ranks must do the same with tables")
        refused(made, lambda: made.load(folder + " " * (world.rank == last)), "all ranks must do the same with tables")
    world.Barrier()
    if world.rank == 0:
        with open(os.path.join(folder, "one_0-key"), "r+b") as file:
            file.seek(296)
            file.write(np.int64(ROWS - 1).tobytes())
    world.Barrier()
    refused(made, lambda: made.load(folder), "key {} ".format(ROWS - 1))
    if world.rank == 0:  # it was row 0's
        with open(os.path.join(folder, "one_0-key"), "r+b") as file:
            file.seek(296)
            file.write(np.int64(0).tobytes())
    world.Barrier()
    check_files(folder, made, world.size)


if __name__ == "__main__":
    sok.init()
    check_faults(*check_whole(sys.argv[2:]))
    print("rank", world.rank, "ok")

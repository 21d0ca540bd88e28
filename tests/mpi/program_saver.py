"""Dumps tables to folders, restores what programs on other numbers of ranks have dumped, loads them from tensors.

    mpiexec -np N python program_saver.py SEED FOLDER [N of an earlier program ...]

Rows begin as a function of seed, table and key, but keys are inserted in an order of their own on every N; then each
row is what a load or a restore has put there: its key's, times the factor of the program that dumped it.
"""
import os
import sys

import numpy as np
from saver_model import Model

from sok1x.graph_ops.transfer import distinct_keys, keyed_files, sok_dump, sok_values

V, D = 97, 5
INT64 = np.iinfo(np.int64)
# Small buffers, so that everything takes several rounds.
sok_dump._BUFFER_BYTES = keyed_files.BUFFER_BYTES = 50 * 4 * D
keyed_files.KEYS_AT_ONCE, distinct_keys._COMPARED_AT_ONCE, sok_values._ROWS_AT_ONCE = 31, 17, 8


def cases(seed):
    """{name: (options, keys that have been inserted in the end, dtype of the keys' file)}"""
    random = np.random.RandomState(seed)
    wide = np.unique(np.concatenate([[INT64.min, INT64.max, -1, 0], random.randint(INT64.min, INT64.max, 67)]))
    unsigned = np.unique(np.concatenate([[2 ** 32 - 1, 0], random.randint(0, 2 ** 32, 66)]))[:61]
    signed = np.unique(random.randint(-2 ** 31, 2 ** 31, 50))
    return {"int64": ({}, wide, "<i8"), "uint32": ({"key_dtype": "uint32"}, unsigned, "<u4"),
            "int32": ({"key_dtype": "int32"}, signed, "<i8"), "none": ({}, wide[:0], "<i8"),
            "direct": ({"use_hashtable": False, "rows": 23}, None, "<i8"),
            "direct uint32": ({"use_hashtable": False, "rows": 23, "key_dtype": "uint32"}, None, "<u4")}


def factor(ranks):
    return np.float32(2 ** ranks)


def check_files(folder, keys, dtype, expected, direct):
    """expected: the rows of `keys`."""
    got = np.fromfile(os.path.join(folder, "EmbeddingVariable_keys.file"), dtype)
    values = np.fromfile(os.path.join(folder, "EmbeddingVariable_values.file"), "<f4").reshape(-1, D)
    order = np.argsort(got)
    np.testing.assert_array_equal(got[order], keys)
    np.testing.assert_array_equal(values[order], expected)
    owners = got.astype(np.int64) % world.size
    assert (np.diff(got.astype(np.int64)) == 1).all() if direct else (np.diff(owners) >= 0).all()
    assert len(os.listdir(folder)) == 2


def check_case(name, options, keys, dtype, folder, earlier, seed):
    options = dict(dict(rows=V), **options)
    direct = "use_hashtable" in options
    mine = os.path.join(folder, "{} of {}".format(name, world.size))
    if direct:
        keys = np.arange(options["rows"] * world.size)
    model = Model(mine, dim=D, **options)
    first = model.read(keys)
    if not direct:
        # Every rank asks for some of the keys, in an order of its own.
        random = np.random.RandomState([seed, world.rank])
        model.insert(random.permutation(keys)[:40])
        model.insert(random.permutation(keys))
    model.run(model.dump)
    check_files(mine, keys, dtype, first, direct)
    world.Barrier()
    if not direct:
        state = model.values()
        model.run(model.restore)  # the same number of ranks: row by row, index and all
        for one, two in zip(model.values(), state):
            np.testing.assert_array_equal(one, two)
    # Other values than first ones: the files' times the factor.
    if world.rank == 0:
        path = os.path.join(mine, "EmbeddingVariable_values.file")
        (np.fromfile(path, "<f4") * factor(world.size)).tofile(path)
    world.Barrier()
    model.run(model.restore)
    np.testing.assert_array_equal(model.read(keys), first * factor(world.size))
    for ranks in earlier:
        other = Model(os.path.join(folder, "{} of {}".format(name, ranks)), dim=D, **options)
        there = keys[:options["rows"] * min(ranks, world.size)] if direct else keys
        if direct and ranks > world.size:
            try:
                other.run(other.restore)
                raise AssertionError("keys beyond the table were taken")
            except Exception as error:
                assert "expected keys in [0, {})".format(len(keys)) in str(error), error
            continue
        if not direct:
            other.insert(np.arange(world.rank, world.rank + 9))  # to be gone afterwards
        other.run(other.restore)
        expected = first.copy()
        expected[:len(there)] *= factor(ranks)
        np.testing.assert_array_equal(other.read(keys), expected)
        if not direct:
            assert other.used() == (keys % world.size == world.rank).sum()
            unseen = np.setdiff1d(np.arange(20), keys)
            np.testing.assert_array_equal(other.read(unseen), Model(mine, dim=D, **options).read(unseen))
            other.run(other.dump)  # and back, for whoever comes next
            check_files(other.folder, keys, dtype, expected, direct)


def check_widths(folder):
    """Keys that both know go from int64 tables to uint32 ones and back; odd counts."""
    keys = np.array([5, 2 ** 32 - 1, 0, 77, 2 ** 31, 12, 9])
    for written, read in (("int64", "uint32"), ("uint32", "int64")):
        place = os.path.join(folder, "{} to {} on {}".format(written, read, world.size))
        source, target = Model(place, V, D, key_dtype=written), Model(place, V, D, key_dtype=read)
        rows = source.insert(keys)
        source.run(source.dump)
        target.run(target.restore)
        np.testing.assert_array_equal(target.read(keys), rows)
        assert target.used() == (keys % world.size == world.rank).sum()


def check_load(folder):
    for options in {}, {"use_hashtable": False}:
        model = Model(os.path.join(folder, "unused"), 19, D, **options)
        model.insert(np.arange(3))
        every = np.arange(19 * world.size)
        for count in len(every), 11, 1, 0:
            first = model.read(every)
            rows = np.arange(count * D, dtype=np.float32).reshape(count, D) + count
            model.run(model.load, model.parts(rows))
            read = model.read(every)
            np.testing.assert_array_equal(read[:count], rows)
            if options:
                np.testing.assert_array_equal(read[count:], first[count:])
            else:
                assert model.used() == len(range(world.rank, count, world.size))


def main():
    seed, folder = int(sys.argv[1]), sys.argv[2]
    for name, (options, keys, dtype) in cases(seed).items():
        check_case(name, options, keys, dtype, folder, [int(ranks) for ranks in sys.argv[3:]], seed)
    check_widths(folder)
    check_load(folder)
    print("rank", world.rank, "ok")


if __name__ == "__main__":
    from mpi4py import MPI
    world = MPI.COMM_WORLD
    main()

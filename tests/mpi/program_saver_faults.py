"""What goes wrong on one rank fails on all, changes nothing, and leaves all ranks able to go on.

    mpiexec -np 3 python program_saver_faults.py FOLDER
"""
import errno
import os
import sys

import numpy as np
import tensorflow.compat.v1 as tf
from mpi4py import MPI
from saver_model import Model

import sok1x as sok
from sok1x.graph_ops.transfer import sok_dump

errors = tf.errors
world = MPI.COMM_WORLD
V, D = 20, 4
sok_dump._BUFFER_BYTES = 4 * world.size * 4 * D  # four rows of each rank in a round, of which there are two


def refused(model, op, error, *words, feed=None):
    """The op fails with the same words on all ranks, and the tables are as they were."""
    before = model.values()
    try:
        model.run(op, feed)
    except error as caught:
        for word in words:
            assert word in caught.message, (word, caught.message)
    else:
        raise AssertionError("{} was not refused".format(op.name))
    for one, two in zip(model.values(), before):
        np.testing.assert_array_equal(one, two)


def files(folder):
    """{name: content} of a folder, as soon as all ranks have come here."""
    world.Barrier()
    found = {name: open(os.path.join(folder, name), "rb").read() for name in os.listdir(folder)}
    world.Barrier()
    return found


def write(folder, keys, values):
    world.Barrier()
    if world.rank == 0:
        np.asarray(keys, "<i8").tofile(os.path.join(folder, "EmbeddingVariable_keys.file"))
        np.asarray(values, "<f4").tofile(os.path.join(folder, "EmbeddingVariable_values.file"))
    world.Barrier()


class Failing:
    """os.NAME fails on one rank, at its `calls`-th call."""

    def __init__(self, name, rank, calls, code):
        self.name, self.rank, self.left, self.code = name, rank, calls, code
        self.real = getattr(os, name)

    def __call__(self, *arguments, **options):
        self.left -= 1
        if self.left == 0:
            raise OSError(self.code, os.strerror(self.code))
        return self.real(*arguments, **options)

    def __enter__(self):
        if world.rank == self.rank:
            setattr(os, self.name, self)

    def __exit__(self, *_):
        setattr(os, self.name, self.real)


class FailingNumpy:
    """sok_dump's NumPy, without memory for a function's `calls`-th result on rank 1."""

    def __init__(self, name, calls):
        self._name, self._left = name, calls

    def __getattr__(self, name):
        def fail(*arguments, **options):
            self._left -= 1
            if self._left == 0:
                raise MemoryError("made to fail on purpose")
            return getattr(np, name)(*arguments, **options)
        return fail if name == self._name else getattr(np, name)

    def __enter__(self):
        if world.rank == 1:
            sok_dump.np = self

    def __exit__(self, *_):
        sok_dump.np = np


def check_dump_without_memory(model, folder, before):
    """At any place between two exchanges; and where not even the files that are left over can be removed."""
    for name, number in (("empty", 1), ("ascontiguousarray", 1), ("ascontiguousarray", 2), ("arange", 2),
                         ("arange", 4)):
        with FailingNumpy(name, number):
            refused(model, model.dump, errors.ResourceExhaustedError, "rank 1: ", "out of memory: made to fail")
        assert files(folder) == before
    with Failing("pwrite", 1, 1, errno.ENOSPC), Failing("unlink", 0, 1, errno.EIO):
        refused(model, model.dump, errors.ResourceExhaustedError, "on rank 1: ", "No space left")
    left = sorted(set(files(folder)) - set(before))
    assert len(left) == 1, left
    if world.rank == 0:
        os.unlink(os.path.join(folder, left[0]))


def check_dump(folder):
    for number, options in enumerate(({}, {"use_hashtable": False})):
        place = os.path.join(folder, "dump {}".format(number))
        model = Model(place, V, D, **options)
        model.insert(np.arange(15))
        model.run(model.dump)
        before = files(place)
        assert len(before) == 2
        model.insert(np.arange(30))
        for rank in 0, 2:
            with Failing("pwrite", rank, 2, errno.ENOSPC):
                refused(model, model.dump, errors.ResourceExhaustedError, "on rank {}: ".format(rank), place,
                        "No space left", "bytes were to be written")
            assert files(place) == before
        if options:
            check_dump_without_memory(model, place, before)
        with Failing("rename", 0, 3, errno.EACCES):
            refused(model, model.dump, errors.PermissionDeniedError, "on rank 0: ", place)
        assert files(place) == before
        with Failing("makedirs", 0, 1, errno.EACCES):
            refused(model, model.dump, errors.PermissionDeniedError, "on rank 0: ", place)
        model.run(model.dump)
        assert files(place) != before or options


def check_ranks_without_a_common_folder(folder):
    """Ranks that see another folder under the same path, as on several hosts without a shared file system."""
    own = os.path.join(folder, "seen by {}".format(world.rank))
    os.makedirs(own)
    os.chdir(own)
    model = Model("tables", V, D)
    model.insert([1, 2, 3])
    refused(model, model.dump, errors.FailedPreconditionError, "cannot see the file", "a folder that all ranks share",
            "on rank 1")
    assert world.rank or os.listdir("tables") == []
    os.makedirs("tables", exist_ok=True)
    refused(model, model.restore, errors.NotFoundError, "_keys.file", "No such file")
    rows = np.ones([world.rank + 1, D], "<f4")
    np.arange(world.rank + 1).astype("<i8").tofile("tables/EmbeddingVariable_keys.file")
    rows.tofile("tables/EmbeddingVariable_values.file")
    refused(model, model.restore, errors.FailedPreconditionError, "[1, 2, 3] rows", "a folder that all ranks share")
    for one_dump in (False, True):  # of the same sizes everywhere
        for what, values in (("keys", np.arange(2)), ("values", np.full([2, D], 1 if one_dump else world.rank, "<f4"))):
            path = "tables/EmbeddingVariable_{}.file".format(what)
            values.tofile(path)
            os.utime(path, ns=(0, 5 if what == "keys" else world.rank))
        if not one_dump:
            refused(model, model.restore, errors.FailedPreconditionError, "samples of both files with the checksums")
    model.run(model.restore)  # copies of one dump, each with a time of its own
    os.chdir(folder)


def check_keys_of_other_ranks(folder):
    """Which a lookup that is of this rank alone has given rows."""
    with tf.Graph().as_default(), tf.Session() as session:
        table = sok.DynamicVariable(dimension=D, initializer="ones", init_capacity=4, name="table")
        keys = tf.placeholder(tf.int64, [None])
        rows = tf.nn.embedding_lookup(table, keys)
        dump = sok.Saver().dump_to_file(table, os.path.join(folder, "strays"))
        session.run(tf.global_variables_initializer())
        session.run(rows, {keys: [7, 8] if world.rank else []})
        try:
            session.run(dump)
            raise AssertionError("not refused")
        except errors.FailedPreconditionError as error:
            assert "on rank 1: got 1 keys on rank 1 that belong to other ranks" in error.message, error.message
    assert files(os.path.join(folder, "strays")) == {}


def check_restore(folder):
    place = os.path.join(folder, "restore")
    if world.rank == 0:
        os.makedirs(place)
    model = Model(place, V, D)
    model.insert(np.arange(15))
    full = np.concatenate([np.arange(V + 1) * world.size + 1, [0, 2]])  # rank 1 alone has too many
    write(place, full, np.ones([len(full), D]))
    refused(model, model.restore, errors.ResourceExhaustedError, "on rank 1: got 21 rows to load, expected at most 20")
    write(place, [0, 1, 2, 5, 8, 2], np.ones([6, D]))
    refused(model, model.restore, errors.InvalidArgumentError, "on rank 2: got key 2 twice")
    write(place, [0, 1, 2], np.ones([3, D + 1]))
    refused(model, model.restore, errors.InvalidArgumentError, "60 bytes", "24 bytes", "embedding_vec_size 4")
    write(place, [0, 1, 2], np.ones([3, D]))
    with Failing("preadv", 1, 1, errno.EIO):
        refused(model, model.restore, errors.InternalError, "on rank 1: ", place, "Input/output error")
    model.run(model.restore)
    np.testing.assert_array_equal(model.read([2, 0]), np.ones([2, D]))
    # So late that this rank's table has been emptied: it is an empty table, and all ranks hear of it.
    with Failing("preadv", 1, 6, errno.EIO):
        try:
            model.run(model.restore)
            raise AssertionError("not refused")
        except errors.InternalError as error:
            assert "on rank 1: " in error.message and "Input/output error" in error.message
    assert model.used() == (0 if world.rank == 1 else 1)
    model.run(model.restore)


def check_load():
    model = Model("unused", V, D)
    model.insert(np.arange(15))
    rows = np.ones([world.rank + 1, D])
    refused(model, model.load, errors.InvalidArgumentError, "got [1, 2, 3] rows of values", feed=model.parts(rows))
    many = np.ones([V * world.size + 1, D])
    refused(model, model.load, errors.InvalidArgumentError, "got 61 rows of values, expected at most 60",
            feed=model.parts(many if world.rank == 1 else rows))
    model.run(model.load, model.parts(many[1:]))


def check_one_rank_not_initialized(folder):
    model = Model(folder, V, D, initialize=world.rank != 1)
    for op in model.dump, model.restore, model.load:
        try:
            model.run(op, model.parts(np.ones([2, D])))
            raise AssertionError("not refused")
        except errors.FailedPreconditionError as error:
            assert "'EmbeddingVariable' have not been initialized" in error.message


def main():
    folder = sys.argv[1]
    check_dump(folder)
    check_ranks_without_a_common_folder(folder)
    check_keys_of_other_ranks(folder)
    check_restore(folder)
    check_load()
    check_one_rank_not_initialized(os.path.join(folder, "restore"))
    print("rank", world.rank, "ok")


if __name__ == "__main__":
    main()

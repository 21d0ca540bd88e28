"""Run by test_eager_objects.py: tf.train.Checkpoint.restore of what another job saves anew, or removes, meanwhile.

Either all of one save is restored, on all ranks, or all of them say that it is not.
"""
import functools
import glob
import os
import shutil
import sys
from unittest import mock

import tensorflow as tf

tf.compat.v1.enable_v2_behavior()
from filled_tables import error_of, expect_rows, fill, new_table  # noqa: E402

import sok1x as sok  # noqa: E402
from sok1x import launch  # noqa: E402
from sok1x.checkpoint.eager import eager_restoring  # noqa: E402
from sok1x.checkpoint.errors import MismatchError  # noqa: E402
from sok1x.checkpoint.session.talk import talk  # noqa: E402

REPLACED = "Another job has replaced or removed the checkpoint in"
GONE = "is gone since it was restored"


class Model:
    def __init__(self):
        self.table = new_table()
        self.weight = tf.Variable(0.0)
        self.checkpoint = tf.train.Checkpoint(table=self.table, weight=self.weight, no_values=tf.Module())

    def put(self, number):
        fill(self.table, number)
        self.weight.assign(number)

    def expect(self, number):
        expect_rows(self.table, number)
        assert self.weight.numpy() == number, self.weight


def barrier():
    talk().exchange(None, None)


def names_of(prefix):
    return glob.glob(glob.escape(prefix) + ".*")


def remove(prefix):
    for name in names_of(prefix):
        (shutil.rmtree if os.path.isdir(name) else os.remove)(name)


def replace(prefix, other):
    """What another job has saved to `other` has the name of this prefix."""
    remove(prefix)
    for name in names_of(other):
        (shutil.copytree if os.path.isdir(name) else shutil.copyfile)(name, prefix + name[len(other):])


def check_failed_looks(model, path):
    """One rank cannot read for a moment, as where another job is writing the index: nothing is restored anywhere."""
    world, stock = launch.current(), tf.compat.v1.train.NewCheckpointReader
    model.put(-1)
    for failing in range(world.size):
        barrier()
        fails = [failing == world.rank]

        def reader(prefix):
            if fails and fails.pop():
                raise tf.errors.DataLossError(None, None, "file is too short to be an sstable")
            return stock(prefix)
        with mock.patch.object(tf.compat.v1.train, "NewCheckpointReader", reader):
            error = error_of(lambda: model.checkpoint.restore(path))
        assert "file is too short to be an sstable" in str(error), error
        assert isinstance(error, tf.errors.DataLossError) == (failing == world.rank), repr(error)
        assert failing == world.rank or "Rank {}: ".format(failing) in str(error), error
        model.expect(-1)
        # Or it sees there the folder of a whole checkpoint, which another job is about to replace.
        with mock.patch.object(eager_restoring.prefixes, "folder_of", {failing: str}.get(world.rank, {}.get)):
            error = error_of(lambda: model.checkpoint.restore(path))
        assert "is of sok.CheckpointManager, or" in str(error), error
        assert isinstance(error, MismatchError) == (failing == world.rank), repr(error)
        model.expect(-1)
    assert isinstance(error_of(lambda: model.checkpoint.restore(path + "none")), tf.errors.NotFoundError)
    model.checkpoint.restore(path)
    model.expect(1)


def check_failed_looks_before_tables(path):
    """Where there is no table yet a rank does not know that others wait: it takes no other look of its own."""
    stock, told = tf.compat.v1.train.NewCheckpointReader, []

    def reader(prefix):
        if not told:
            told.append(prefix)
            raise tf.errors.DataLossError(None, None, "file is too short to be an sstable")
        return stock(prefix)
    with mock.patch.object(tf.compat.v1.train, "NewCheckpointReader", reader):
        assert isinstance(error_of(lambda: tf.train.Checkpoint().restore(path)), tf.errors.DataLossError)
    barrier()


def check_changed(model, path, change, where, changes, wanted=1):
    """Rank 0 changes the files as another job does, before or after something; either it is told, or all is restored.

    Args:
        change: what is done.
        where: (module, name of the function, whether before or after it).
        changes: whether variables may have changed, of what is told; None: nothing is, and all is `wanted`.
    """
    world, (module, name, before) = launch.current(), where
    function, done = getattr(module, name), []

    def at_once(*arguments, **options):
        if before and not done:
            done.append(barrier)
            if world.rank == 0:
                change()
            barrier()
        result = function(*arguments, **options)
        if not before and not done:
            done.append(barrier)
            barrier()
            if world.rank == 0:
                change()
            barrier()
        return result
    model.put(-1)
    with mock.patch.object(module, name, at_once):
        error = error_of(lambda: model.checkpoint.restore(path))
    if changes is None:
        assert error is None, error
        model.expect(wanted)
        return
    assert REPLACED in str(error), error
    if not changes:
        model.expect(-1)
    barrier()


def check_all(model, folder):
    path, saves = os.path.join(folder, "best"), [os.path.join(folder, "save{}".format(number)) for number in (1, 2)]
    for number, save in enumerate(saves):
        model.put(number + 1)
        model.checkpoint.write(save)
    restore = functools.partial(replace, path, saves[0])
    look, load = (eager_restoring, "_prefix_of"), (eager_restoring, "_load")
    for change in (functools.partial(replace, path, saves[1]), functools.partial(remove, path)):
        removed = change.func is remove
        for where, changes in ((look + (False,), False), (load + (True,), True), (load + (False,), True)):
            barrier()
            if launch.current().rank == 0:
                restore()
            barrier()
            # One that has gone has been read whole.
            check_changed(model, path, change, where, None if removed and where == load + (False,) else changes)
        if not removed:
            model.checkpoint.restore(path)
            model.expect(2)
    barrier()
    if launch.current().rank == 0:
        restore()
    barrier()
    check_failed_looks(model, path)
    check_failed_looks_before_tables(path)


def check_made_later(model, folder):
    """What is made after a restore reads its value then: what it was found to be at the restore, or all are told."""
    path, other = os.path.join(folder, "later"), os.path.join(folder, "other")
    for number, save in enumerate((path, other)):
        model.put(number + 1)
        model.checkpoint.write(save)
    touch = functools.partial(os.utime, path + ".index")  # the same save, in files that are not as they were
    for change in (touch, functools.partial(replace, path, other), functools.partial(remove, path)):
        twin = Model()
        twin.put(-1)
        late = tf.train.Checkpoint()
        late.read(path)
        barrier()
        if launch.current().rank == 0:
            change()
        barrier()
        for name in ("weight", "table"):
            error = error_of(lambda: setattr(late, name, getattr(twin, name)))
            assert (change is touch) == (error is None), (change, error)
            # Rank 0's is of that name, too; the others' names are those of one save.
            is_other = change is not touch and change.func is replace and launch.current().rank == 0
            assert error is None or (REPLACED if is_other else GONE) in str(error), error
            assert error is None or isinstance(error, tf.errors.NotFoundError) != is_other, repr(error)
        late.no_values = tf.Module()  # which leaves nothing to read
        if change is touch:
            twin.expect(1)
        elif change.func is replace:
            late.read(path)  # again
            late.weight, late.table = twin.weight, twin.table
            twin.expect(2)
        barrier()


def check_counted(model, folder):
    """The save_counter, which TensorFlow would read when all else is restored, is of the same save."""
    path, counted = os.path.join(folder, "counted"), (tf.train.Checkpoint, "_maybe_create_save_counter", True)
    for number in (1, 2):
        model.put(number)
        model.checkpoint.save(path)
    twin, stock = Model(), tf.train.Checkpoint._maybe_create_save_counter
    twin.put(-1)

    def replaced_before(checkpoint):
        if launch.current().rank == 0:
            replace(path + "-1", path + "-2")
        return stock(checkpoint)
    barrier()
    with mock.patch.object(tf.train.Checkpoint, "_maybe_create_save_counter", replaced_before):
        error = error_of(lambda: twin.checkpoint.restore(path + "-1"))
    assert REPLACED in str(error), error
    barrier()
    twin.checkpoint.restore(path + "-2")
    twin.expect(2)
    assert twin.checkpoint.save_counter.numpy() == 2
    check_changed(Model(), path + "-2", lambda: None, counted, None, 2)
    late = Model()
    late.checkpoint.read(path + "-2")
    assert late.checkpoint._save_counter is None


def check_own_paths(model, folder):
    """Each rank has a path of its own, and rank 0's is of another save when it is loaded."""
    rank = launch.current().rank
    saves = [os.path.join(folder, "own", "{}-{}".format(number, rank)) for number in (1, 2)]
    for number, save in enumerate(saves):
        model.put(number + 1)
        model.checkpoint.write(save)
    check_changed(model, saves[0], functools.partial(replace, *saves), (eager_restoring, "_load", True), True)
    error = error_of(lambda: model.checkpoint.restore(saves[0]))
    assert "The ranks restore different checkpoints" in str(error), error


def main(folder):
    sok.init()
    model = Model()
    check_all(model, folder)
    check_own_paths(model, folder)
    check_made_later(model, folder)
    check_counted(model, folder)
    print("rank", launch.current().rank, "ok")


if __name__ == "__main__":
    main(*sys.argv[1:])

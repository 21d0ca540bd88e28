"""Run by test_eager_objects.py: tf.train.Checkpoint.restore that fails says why, as TensorFlow does, and no more.

On one rank and on two; stock TensorFlow says what is raised where there are no tables.
"""
import contextlib
import errno
import os
import sys
import threading
from unittest import mock

import numpy as np
import tensorflow as tf

tf.compat.v1.enable_v2_behavior()
from filled_tables import error_of, expect_rows, fill, new_table  # noqa: E402

import sok1x as sok  # noqa: E402
from sok1x import launch  # noqa: E402
from sok1x.checkpoint.eager import eager_restoring  # noqa: E402
from sok1x.checkpoint.errors import CheckpointError  # noqa: E402
from sok1x.checkpoint.session.talk import talk  # noqa: E402


class Part(tf.Module):
    """With a variable, and with a table if it is given one."""

    def __init__(self, number, table=None):
        super().__init__()
        self.weight = tf.Variable(float(number))
        if table is not None:
            self.table = table


def check_gone(folder, table):
    """A manager has removed what was restored: what is made then has no value there, and that is nobody's fault."""
    model = Part(1, table)
    model.late = Part(2)
    tf.train.CheckpointManager(tf.train.Checkpoint(model=model), folder, 1).save()
    model = Part(0, table)
    manager = tf.train.CheckpointManager(tf.train.Checkpoint(model=model), folder, 1)
    path = manager.latest_checkpoint
    manager.checkpoint.restore(path)
    assert model.weight.numpy() == 1
    assert manager.save() != path and not os.path.exists(path + ".index")
    talk().exchange(None, None)
    late = Part(3)
    error = error_of(lambda: setattr(model, "late", late))
    assert isinstance(error, tf.errors.NotFoundError), repr(error)  # as TensorFlow's own
    if table is not None:
        assert path in str(error) and "is gone since it was restored" in str(error), error
    model.late = late
    assert late.weight.numpy() == 3
    manager.save()
    model.another = Part(4)
    assert model.another.weight.numpy() == 4


def check_bytes(folder, table):
    """A path as TensorFlow takes it, of a model with a table or with none."""
    part = Part(1, table)
    checkpoint = tf.train.Checkpoint(part=part)
    path = os.path.join(folder, "bytes").encode()
    if table is not None:
        fill(table, 5)
    written = checkpoint.write(path)
    assert tf.compat.as_bytes(written) == path, written
    for restore in (checkpoint.read, checkpoint.restore):
        part.weight.assign(0.0)
        if table is not None:
            fill(table, 0)
        restore(path)
        assert part.weight.numpy() == 1
        if table is not None:
            expect_rows(table, 5)


@contextlib.contextmanager
def failing(meanwhile=None):
    """Inside, the last rank's restores fail when all has been read; the function is called before that."""
    world, stock = launch.current(), eager_restoring._load

    def load(*arguments):
        loaded = stock(*arguments)
        if meanwhile is not None:
            meanwhile()
        if world.rank == world.size - 1:
            raise CheckpointError("of two saves")
        return loaded
    with mock.patch.object(eager_restoring, "_load", load):
        yield


def expect_failure(checkpoint, path, meanwhile=None):
    with failing(meanwhile):
        error = error_of(lambda: checkpoint.restore(path))
    assert "of two saves" in str(error), repr(error)


def check_forgotten(folder, table):
    """A restore that has failed gives nothing to what is made later; the next one does."""
    model = Part(1, table)
    model.late = Part(2)
    path = tf.train.Checkpoint(model=model).write(os.path.join(folder, "forgotten"))
    model = Part(0, table)
    checkpoint = tf.train.Checkpoint(model=model)
    expect_failure(checkpoint, path)
    model.late = Part(3)
    assert model.late.weight.numpy() == 3
    checkpoint.restore(path)
    assert model.late.weight.numpy() == 2


def check_forgotten_slots(folder):
    """Nor to the slots that an optimizer makes at its first step."""
    for name, make in (("keras", lambda: tf.keras.optimizers.legacy.SGD(0.1, 0.5)),
                       ("scaled", lambda: tf.keras.mixed_precision.LossScaleOptimizer(
                           tf.keras.optimizers.legacy.SGD(0.1, 0.5), dynamic=False, initial_scale=1)),
                       ("stock", lambda: tf.compat.v1.train.MomentumOptimizer(0.1, 0.5))):
        trained, optimizer = [new_table(), tf.Variable([[0.0]])], make()
        step(optimizer, trained, 3.0)
        path = tf.train.Checkpoint(trained=trained, optimizer=optimizer).write(os.path.join(folder, name))
        trained, optimizer = [new_table(), tf.Variable([[0.0]])], make()
        checkpoint = tf.train.Checkpoint(trained=trained, optimizer=optimizer)
        with tf.variable_creator_scope(lambda create, **options: create(**options)):  # where none are made meanwhile
            expect_failure(checkpoint, path)
        step(optimizer, trained, 1.0)
        for one in trained:
            slot = np.abs(optimizer.get_slot(one, "momentum").numpy())
            assert slot.max() in (1.0, np.float32(0.1)), (name, slot)
        checkpoint.restore(path)
        for one in trained:
            slot = np.abs(optimizer.get_slot(one, "momentum").numpy())
            assert slot.max() in (3.0, np.float32(0.3)), (name, slot)


def step(optimizer, trained, gradient):
    """Of a table and a variable, whose gradients are this number."""
    def loss():
        rows = sok.all2all_dense_embedding(trained[0], tf.constant([launch.current().rank], tf.int64))
        return gradient * (tf.reduce_sum(rows) + tf.reduce_sum(trained[1]))
    optimizer.minimize(loss, var_list=trained)


def check_forgotten_names(folder):
    """Nor what a graph's Saver has saved, which TensorFlow finds by variables' names: on one rank alone."""
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        sok.DynamicVariable(dimension=2, init_capacity=8, name="named")
        v1.get_variable("late", initializer=2.0), v1.get_variable("weight", initializer=1.0)
        session.run(v1.global_variables_initializer())
        saver = v1.train.Saver()
        first, second = [saver.save(session, os.path.join(folder, name)) for name in ("first", "second")]
    model = tf.Module()
    model.table = sok.DynamicVariable(dimension=2, init_capacity=8, name="named")
    model.weight = tf.Variable(0.0, name="weight")
    checkpoint = tf.train.Checkpoint(model=model)
    tf.get_logger().setLevel("ERROR")  # it says that names are deprecated
    expect_failure(checkpoint, first)
    model.late = tf.Variable(3.0, name="late")
    assert model.late.numpy() == 3
    del model.late
    checkpoint.read(second)
    model.late = tf.Variable(3.0, name="late")
    assert model.late.numpy() == 2 and model.weight.numpy() == 1


def check_others_kept(folder, table):
    """What another thread has restored meanwhile, and has not failed, is given to what is made later."""
    model, path = Part(1, table), os.path.join(folder, "whole")
    model.shared = Part(2)
    tf.train.Checkpoint(model=model).write(path)
    model.shared.late = Part(4)
    other = tf.train.Checkpoint(shared=model.shared).write(os.path.join(folder, str(launch.current().rank)))
    model = Part(0, table)
    model.shared = Part(0)

    def restore_other():
        thread = threading.Thread(target=lambda: tf.train.Checkpoint(shared=model.shared).read(other))
        thread.start()
        thread.join()
    expect_failure(tf.train.Checkpoint(model=model), path, restore_other)
    model.shared.late = Part(3)
    assert model.shared.late.weight.numpy() == 4


def check_unseen(folder, table):
    """Rank 1 does not see what has no tables: rank 0 does not wait for it, and it says what it has not found."""
    rank = launch.current().rank
    part, path = Part(1), os.path.join(folder, "seen_by_{}".format(rank))
    if rank == 0:
        tf.train.Checkpoint(part=part).write(path)
    part.table = table
    error = error_of(lambda: tf.train.Checkpoint(part=part).read(path).expect_partial())
    if rank == 0:
        assert error is None, error
        error = error_of(lambda: sok.all2all_dense_embedding(table, tf.constant([1], tf.int64)))
        assert "every rank waits for an op" in str(error), error
        return
    assert isinstance(error, tf.errors.NotFoundError) and path in str(error), repr(error)
    assert isinstance(error.__cause__, CheckpointError), repr(error.__cause__)


def check_no_look(folder, table):
    """Rank 1 cannot look for a whole checkpoint of that name: all hear of it, and the next restore is all ranks'."""
    rank, stock, path = launch.current().rank, os.lstat, os.path.join(folder, "looked")
    checkpoint = tf.train.Checkpoint(part=Part(1, table))
    fill(table, 5)
    checkpoint.write(path)
    fill(table, 0)

    def lstat(name, **options):
        if name == os.path.join(path, "manifest.json"):
            raise OSError(errno.EIO, "Input/output error", name)
        return stock(name, **options)
    with mock.patch.object(os, "lstat", lstat if rank == 1 else stock):
        error = error_of(lambda: checkpoint.read(path))
    assert isinstance(error, CheckpointError) and "Input/output error" in str(error), repr(error)
    assert rank == 1 or str(error).startswith("Rank 1: "), error
    expect_rows(table, 0)
    checkpoint.read(path)
    expect_rows(table, 5)


def main(folder):
    sok.init()
    world, table = launch.current(), new_table()
    folder = os.path.join(folder, str(world.size))
    for check in (check_gone, check_bytes):
        check(os.path.join(folder, "stock-{}".format(world.rank)), None)
        check(os.path.join(folder, "tables"), table)
    check_forgotten(os.path.join(folder, "tables"), table)
    check_forgotten_slots(os.path.join(folder, "slots"))
    check_others_kept(os.path.join(folder, "others"), table)
    if world.size == 1:
        check_forgotten_names(os.path.join(folder, "names"))
    else:
        check_no_look(os.path.join(folder, "tables"), table)
    print("rank", world.rank, "ok")


def main_unseen(folder):
    sok.init()
    check_unseen(folder, new_table())
    print("rank", launch.current().rank, "ok")


if __name__ == "__main__":
    {"all": main, "unseen": main_unseen}[sys.argv[1]](sys.argv[2])

"""Run by test_eager_objects.py: tf.train.Checkpoint.restore that fails says why, as TensorFlow does, and no more.

On one rank and on two; stock TensorFlow says what is raised where there are no tables.
"""
import os
import sys
from unittest import mock

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


def check_forgotten(folder, table):
    """A restore that has failed gives nothing to what is made later; the next one does."""
    world, stock = launch.current(), eager_restoring._load
    model = Part(1, table)
    model.late = Part(2)
    path = tf.train.Checkpoint(model=model).write(os.path.join(folder, "forgotten"))
    model = Part(0, table)
    checkpoint = tf.train.Checkpoint(model=model)

    def failing(*arguments):
        loaded = stock(*arguments)
        if world.rank == world.size - 1:
            raise CheckpointError("of two saves")
        return loaded
    with mock.patch.object(eager_restoring, "_load", failing):
        error = error_of(lambda: checkpoint.restore(path))
    assert "of two saves" in str(error), error
    model.late = Part(3)
    assert model.late.weight.numpy() == 3
    checkpoint.restore(path)
    assert model.late.weight.numpy() == 2


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


def main(folder):
    sok.init()
    world, table = launch.current(), new_table()
    folder = os.path.join(folder, str(world.size))
    for check in (check_gone, check_bytes):
        check(os.path.join(folder, "stock-{}".format(world.rank)), None)
        check(os.path.join(folder, "tables"), table)
    check_forgotten(os.path.join(folder, "tables"), table)
    print("rank", world.rank, "ok")


def main_unseen(folder):
    sok.init()
    check_unseen(folder, new_table())
    print("rank", launch.current().rank, "ok")


if __name__ == "__main__":
    {"all": main, "unseen": main_unseen}[sys.argv[1]](sys.argv[2])

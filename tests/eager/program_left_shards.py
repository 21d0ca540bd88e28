"""Run by test_eager_objects.py: where tf.train.Checkpoint on several ranks has its files.

What saves left that have died or failed goes; the shards of the save that all have made stay, and come back.
"""
import contextlib
import os
import resource
import signal
import sys
from unittest import mock

import numpy as np
import tensorflow as tf
from absl import logging

tf.compat.v1.enable_v2_behavior()
import sok1x as sok  # noqa: E402
from sok1x import launch  # noqa: E402
from sok1x.checkpoint.session.talk import talk  # noqa: E402

KEYS, DIM = np.arange(2000), 8
SMALL = 4096  # bytes: a shard has more


class Model:
    def __init__(self):
        self.table = sok.DynamicVariable(dimension=DIM, init_capacity=len(KEYS))
        self.checkpoint = tf.train.Checkpoint(table=self.table)

    def put(self, number):
        sok.assign(self.table, tf.constant(KEYS), tf.fill([len(KEYS), DIM], float(number)))

    def expect(self, number):
        keys, rows = sok.export(self.table)
        assert len(keys) and (rows.numpy() == number).all(), rows

    def check(self, path, number):
        """That the last save has this, and that nothing else is beside it."""
        self.put(-1)
        self.checkpoint.read(path).assert_consumed()
        self.expect(number)
        expect_one_save(path)


def expect_one_save(path):
    ranks = launch.current().size
    names = sorted(os.listdir(os.path.normpath(path + ".ranks")))
    assert len({name.split(".")[1] for name in names}) == 1, names  # their tokens
    assert [name.split(".")[0] for name in names] == [
        "{}-of-{}".format(rank, ranks) for rank in range(1, ranks) for _ in range(2)], names  # an index and data


@contextlib.contextmanager
def little_room():
    """Inside, this process cannot write a shard, as if the disk were full."""
    unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (SMALL, unlimited[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)


def expect_no_room(call):
    try:
        call()
    except Exception as error:
        assert "File too large" in str(error), error
    else:
        raise AssertionError("no error")


def barrier():
    talk().exchange(None, None)


def check_what_dead_saves_left(model, path):
    """Rank 0 makes it: in folders while a rank writes, and files of jobs of other numbers of ranks, too."""
    token = "0" * 16
    if launch.current().rank == 0:
        for name in ("1-of-2", "1-of-3", "2-of-3", "4-of-7"):
            shard = os.path.join(path + ".ranks", "{}.{}".format(name, token))
            os.makedirs(shard + "_temp")
            for file in (shard + "_temp/part-00000-of-00001.index", shard + ".index.tempstate123",
                         shard + ".data-00000-of-00001"):
                with open(file, "w") as out:
                    out.write("left")
    barrier()
    for number in (1, 2):
        model.put(number)
        model.checkpoint.write(path)
        model.check(path, number)


def check_failed_saves(model, path):
    """The disk of rank 1 is full; with room again all is as if nothing had failed."""
    model.put(1)
    model.checkpoint.write(path)
    model.put(2)
    for _ in range(2):
        with little_room() if launch.current().rank == 1 else contextlib.nullcontext():
            expect_no_room(lambda: model.checkpoint.write(path))
        barrier()
        expect_one_save(path)
    model.check(path, 1)
    for number in (3, 4):
        model.put(number)
        model.checkpoint.write(path)
        model.check(path, number)


def check_saved_and_told_otherwise(model, path):
    """What rank 0 calls back fails when all is saved, and then the others cannot look for a moment: all stays."""
    def refuse(saved):
        raise ValueError("refused " + saved)

    def unreadable(*_):
        raise tf.errors.DataLossError(None, None, "unreadable")
    model.put(1)
    model.checkpoint.write(path)
    model.put(2)
    with mock.patch.object(tf.compat.v1.train, "NewCheckpointReader", unreadable):
        try:
            model.checkpoint.write(path, tf.train.CheckpointOptions(experimental_write_callbacks=[refuse]))
        except Exception as error:
            assert "refused " + path in str(error), error
        else:
            raise AssertionError("no error")
    barrier()
    model.put(-1)
    model.checkpoint.read(path).assert_consumed()
    model.expect(2)
    model.checkpoint.write(path)
    model.check(path, 2)


def check_in_its_thread(model, path):
    """On one rank: what several had saved there goes when the thread has written what takes its place, not before."""
    os.makedirs(path + ".ranks")
    options = tf.train.CheckpointOptions(experimental_enable_async_checkpoint=True)
    model.put(1)
    logging.set_verbosity(logging.FATAL)  # what fails here TensorFlow logs, too
    with little_room():
        model.checkpoint.write(path, options)
        model.checkpoint.sync()
    assert os.path.exists(path + ".ranks")
    expect_no_room(lambda: model.checkpoint.write(path, options))  # TensorFlow says then what has failed before
    model.checkpoint.write(path, options)
    model.checkpoint.sync()
    assert not os.path.exists(path + ".ranks")
    model.put(-1)
    model.checkpoint.read(path).assert_consumed()
    model.expect(1)


def check_as_it_is_written(model, folder):
    """Paths that are not as os.path.abspath gives them: the other ranks' shards are beside what TensorFlow writes."""
    if launch.current().rank == 0:
        os.makedirs(os.path.join(folder, "far", "away"))
        os.symlink(os.path.join(folder, "far", "away"), os.path.join(folder, "link"))
    barrier()
    for path, number in ((os.path.join(folder, "slash", ""), 1), (os.path.join(folder, "link", "..", "up"), 2)):
        model.put(number)
        model.checkpoint.write(path)
        model.check(path, number)
    assert os.path.exists(os.path.join(folder, "up.index"))  # TensorFlow takes '..' so
    manager = tf.train.CheckpointManager(model.checkpoint, os.path.join(folder, "link", "..", "managed"), 2)
    for number in (1, 2, 3):
        model.put(number)
        model.check(manager.save(), number)
    barrier()
    assert sorted(os.listdir(os.path.join(folder, "managed"))) == ["checkpoint"] + [
        "ckpt-{}.{}".format(number, what) for number in (2, 3) for what in ("data-00000-of-00001", "index", "ranks")]


def main(folder):
    sok.init()
    model = Model()
    if launch.current().size == 1:
        check_in_its_thread(model, os.path.join(folder, "saved"))
    else:
        check_what_dead_saves_left(model, os.path.join(folder, "of dead.ones", "saved.v1"))
        check_failed_saves(model, os.path.join(folder, "failed", "saved"))
        check_saved_and_told_otherwise(model, os.path.join(folder, "told", "saved"))
        check_as_it_is_written(model, folder)
    print("rank", launch.current().rank, "ok")


if __name__ == "__main__":
    main(*sys.argv[1:])

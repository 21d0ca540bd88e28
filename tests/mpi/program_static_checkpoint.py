"""Checkpoints of sok.Variables: saved on some ranks, restored on others, with rows placed in another way.

    SAVED_ON=RANKS mpiexec -np N python program_static_checkpoint.py save|restore FOLDER SEED
"""
import os
import sys

import numpy as np
import tensorflow.compat.v1 as tf
from static_model import RANK, N, rows_of

import sok1x as sok
from sok1x.checkpoint.commands import show
from sok1x.checkpoint.errors import CheckpointError, MismatchError
from sok1x.checkpoint.files.checkpoint_files import Checkpoint
from sok1x.checkpoint.files.table_rows import TableRows
from sok1x.checkpoint.session import dense_saver

v1 = tf

# Name, shape, dtype, and the modes with which it is saved, and restored.
TABLES = [
    ("tiny", [1, 2], np.float32, None, None),  # a rank without rows begins with it
    ("dealt", [11, 3], np.float32, "distributed", "distributed"),
    ("scope/moved", [10, 2], np.float32, "distributed", "localized:{}".format(N - 1)),
    ("spread", [9, 4], np.float32, "localized:{}".format(N - 1), "distributed"),
    ("kept", [5, 2], np.float32, "localized:0", "localized:0"),
    ("away", [7, 2], np.float32, "localized:0", "localized:{}".format(N - 1)),
    ("numbers", [6, 3], np.int64, "distributed", "localized:0"),
    ("doubles", [4, 1], np.float64, "localized:{}".format(N - 1), None),
]


class Model:
    """The tables, and an optimizer with slots."""

    def __init__(self, restores, seed):
        random = np.random.RandomState(seed)
        self.modes = [table[4 if restores else 3] for table in TABLES]
        self.wholes = [(random.uniform(-9, 9, shape)).astype(dtype) for _, shape, dtype, _, _ in TABLES]
        self.tables = [sok.Variable(np.zeros_like(whole) if restores else whole, mode=mode, name=table[0])
                       for whole, mode, table in zip(self.wholes, self.modes, TABLES)]
        floats = [table for table in self.tables if table.dtype.base_dtype == tf.float32]
        bags = tf.ragged.constant([[0], [0, 0]], dtype=tf.int64)
        loss = tf.add_n([tf.reduce_sum(out) for out in sok.lookup_sparse(floats, [bags] * len(floats))])
        self.global_step = v1.train.get_or_create_global_step()
        self.optimizer = v1.train.MomentumOptimizer(0.5, 0.9)
        self.step = self.optimizer.minimize(loss, self.global_step)
        self.slots = [self.optimizer.get_slot(table, "momentum") for table in floats]

    def expected(self, table):
        """After one step: row 0 has moved, and its momentum is N times 2."""
        whole = self.wholes[table].copy()
        if whole.dtype == np.float32:
            whole[0] -= np.float32(0.5 * 2 * int(os.environ["SAVED_ON"]))
        return whole

    def check(self, session, what):
        rows, slots = session.run([self.tables, self.slots])
        for place, got in enumerate(rows):
            np.testing.assert_array_equal(got, rows_of(self.modes[place], self.expected(place)),
                                          err_msg="{} by {} on rank {}".format(TABLES[place][0], what, RANK))
        for got, mode, table in zip(slots, self.modes, TABLES):
            momentum = np.zeros(table[1])
            momentum[0] = 2 * int(os.environ["SAVED_ON"])
            np.testing.assert_array_equal(got, rows_of(mode, momentum))
        for (keys, _), mode, one in zip(sok.incremental_dump(self.tables, 0, session), self.modes, TABLES):
            changed = [0] if one[2] == np.float32 and (RANK == 0 if mode in (None, "distributed") else
                                                       mode == "localized:{}".format(RANK)) else []
            assert keys.tolist() == changed, (one[0], keys)


def refused(error, words, function, *arguments):
    try:
        function(*arguments)
    except error as found:
        assert words in str(found), found
        return
    raise AssertionError("nothing was refused: {}".format(words))


def check_export(checkpoint, model):
    """What is saved, as a stream in the order of keys."""
    for place, (name, shape, dtype, _, _) in enumerate(TABLES):
        if dtype != np.float32:
            words = "are {}, and float32 ones".format(np.dtype(dtype).name)
            refused(CheckpointError, words, TableRows, checkpoint, name)
            continue
        rows = TableRows(checkpoint, name)
        np.testing.assert_array_equal(np.concatenate(list(rows.keys())), np.arange(shape[0]))
        np.testing.assert_array_equal(np.concatenate(list(rows.values())), model.expected(place))
        assert any("{:,} in use of {:,}".format(shape[0], shape[0]) in line for line in show.lines(checkpoint.folder))


def save(folder, seed):
    with tf.Graph().as_default():
        model, saver = Model(False, seed), v1.train.Saver()
        manager = sok.CheckpointManager(os.path.join(folder, "managed"))
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            session.run(model.step)
            model.check(session, "training")
            manager.save(session, 1)
            saver.save(session, os.path.join(folder, "prefix"), global_step=1)


def restore(folder, seed):
    with tf.Graph().as_default():
        model, saver = Model(True, seed), v1.train.Saver()
        manager = sok.CheckpointManager(os.path.join(folder, "managed"))
        with v1.Session() as session:
            assert manager.restore(session) == 1
            model.check(session, "CheckpointManager")
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            saver.restore(session, os.path.join(folder, "prefix-1"))
            model.check(session, "tf.train.Saver")
    check_export(Checkpoint(dense_saver.last_whole(os.path.join(folder, "managed"))[1]), model)
    with tf.Graph().as_default():  # another number of rows
        sok.Variable(np.zeros([12, 3], np.float32), name="dealt")
        manager = sok.CheckpointManager(os.path.join(folder, "managed"))
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            refused(MismatchError, "the number of rows of table 'dealt' is 11", manager.restore,
                    session)
    with tf.Graph().as_default():  # another dtype
        sok.Variable(np.zeros([6, 3], np.float32), name="numbers")
        manager = sok.CheckpointManager(os.path.join(folder, "managed"))
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            refused(MismatchError, "dtype of rows of table 'numbers' is int64", manager.restore,
                    session)


if __name__ == "__main__":
    sok.init()
    {"save": save, "restore": restore}[sys.argv[1]](sys.argv[2], int(sys.argv[3]))
    sys.stdout.write("ok\n")

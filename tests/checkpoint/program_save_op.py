"""Savers' ops that programs run themselves on several ranks, for test_checkpoint_saved_by_one.py.

    mpiexec -np 2 python program_save_op.py FOLDER save         each rank runs the op, for a path of its own
    mpiexec -np N python program_save_op.py FOLDER restore      rank 0's is refused by tf.train.Saver().restore

What a rank saves so is its shard, of many keys and of few.
"""
import os
import sys

import numpy as np
import tensorflow.compat.v1 as tf

import sok1x as sok
from sok1x import launch
from sok1x.checkpoint.errors import MismatchError

WORDS = ("rank0", "one of 2 ranks", "save_tensor_name", "Saver.save on all ranks")

tf.logging.set_verbosity(tf.logging.ERROR)
sok.init()
rank = launch.current().rank
for count in (40, 4):
    with tf.Graph().as_default(), tf.Session() as session:
        table = sok.DynamicVariable(dimension=2, name="table", initializer="zeros")
        keys = np.arange(count)
        assigned, exported = sok.assign(table, keys, np.ones([count, 2], np.float32)), sok.export(table)
        saver = tf.train.Saver()
        session.run(tf.global_variables_initializer())
        path = os.path.join(sys.argv[1], "{}-rank{}".format(count, "{}"))
        if sys.argv[2] == "save":
            session.run(assigned)
            definition = saver.saver_def
            session.run(definition.save_tensor_name, {definition.filename_tensor_name: path.format(rank)})
        else:
            try:
                saver.restore(session, path.format(0))
            except MismatchError as error:
                assert all(word in str(error) for word in WORDS), error
            else:
                raise AssertionError("no error, and {} keys".format(len(session.run(exported)[0])))
sys.stdout.write("ok {}\n".format(rank))

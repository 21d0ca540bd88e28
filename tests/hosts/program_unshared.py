"""Saves into a folder, and restores from it: what each rank is told where it is another one on each host.

    program_unshared.py FOLDER [restore]
"""
import json
import sys

import tensorflow as tf

import sok1x as sok
from sok1x import launch

FOLDER, RESTORE = sys.argv[1], sys.argv[2:] == ["restore"]

layer = sok.All2AllDenseEmbedding(10, 4, 1, 1)
layer(tf.constant([[[1]]], tf.int64), training=True)
manager = sok.CheckpointManager(FOLDER)
init, start = sok.Init(), tf.compat.v1.global_variables_initializer()
with tf.compat.v1.Session() as session:
    session.run(init)
    session.run(start)
    try:
        if RESTORE:
            manager.restore(session)
        else:
            manager.save(session, 1)
        message = ""
    except Exception as error:
        message = "{}: {}".format(type(error).__name__, error)
    sys.stdout.write(json.dumps({"rank": launch.current().rank, "message": message}) + "\n")

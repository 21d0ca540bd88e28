"""Tables whose rows begin as given ones, of which each rank has its own: saved and restored by hooks and managers.

    mpiexec -np N python program_given_rows.py FOLDER
"""
import os
import sys

import numpy as np
import tensorflow.compat.v1 as tf

import sok1x as sok
from sok1x import launch

tf.logging.set_verbosity(tf.logging.ERROR)
BEFORE, KEYS = [0, 1], np.arange(12)


class Model:
    """Keys of rank R begin with 5 + R."""

    def __init__(self):
        rank = launch.current().rank
        table = sok.DynamicVariable(dimension=2, initializer=np.full([1, 2], 5 + rank, np.float32), init_capacity=2)
        self.keys = tf.placeholder(tf.int64, [None])
        self.rows = sok.all2all_dense_embedding(table, self.keys)
        self.step = tf.assign_add(tf.train.get_or_create_global_step(), 1)

    def look_up(self, session, keys):
        rows, _ = session.run([self.rows, self.step], {self.keys: keys})
        expected = 5.0 + np.asarray(keys) % launch.current().size
        np.testing.assert_array_equal(rows, np.stack([expected, expected], axis=1))


def hooks_of(name, folder):
    """Arguments of a session that saves: by TensorFlow's own hook, or ours."""
    hooks = [sok.InitHook(global_batch_size=1)]
    if name == "stock":
        return dict(checkpoint_dir=folder, save_checkpoint_steps=1, hooks=hooks)
    return dict(hooks=hooks + [sok.CheckpointSaverHook(folder, save_steps=1)])


def by_hooks(name, folder):
    for keys in (BEFORE, KEYS):
        with tf.Graph().as_default():
            model = Model()
            with tf.train.MonitoredTrainingSession(**hooks_of(name, folder)) as session:
                model.look_up(session, keys)


def by_manager(folder, initialize):
    with tf.Graph().as_default(), tf.Session() as session:
        model = Model()
        session.run(tf.global_variables_initializer())
        model.look_up(session, BEFORE)
        sok.CheckpointManager(folder).save(session, 1)
    with tf.Graph().as_default(), tf.Session() as session:
        model = Model()
        if initialize:
            session.run(tf.global_variables_initializer())
        sok.CheckpointManager(folder).restore(session)
        model.look_up(session, KEYS)


if __name__ == "__main__":
    sok.init()
    for kind in ("stock", "ours"):
        by_hooks(kind, os.path.join(sys.argv[1], kind))
    for number in range(2):
        by_manager(os.path.join(sys.argv[1], str(number)), bool(number))
    print("ok", flush=True)

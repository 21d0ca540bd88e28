"""Tables of which all keys belong to one rank of several, saved by one rank, for test_checkpoint_saved_by_one.py.

    mpiexec -np 1 python program_strides.py FOLDER save SEED        in all WAYS
    mpiexec -np N python program_strides.py FOLDER restore SEED     any of them

The oracle is NumPy: a key's row after one step of SGD from ones.
"""
import os
import sys

import numpy as np
import tensorflow.compat.v1 as tf

import sok1x as sok

WAYS = ("saver", "sharded", "named", "set", "in_turn", "session", "scaffold", "imported", "definition")


class Model:
    """Two tables of such keys, with slots, and a dense variable."""

    def __init__(self, seed):
        random = np.random.RandomState(seed)
        self.keys = random.choice(2000, 40, replace=False) * 1000
        self.graph = tf.Graph()
        with self.graph.as_default():
            number = tf.train.get_or_create_global_step()
            self.tables = [sok.All2AllDenseEmbedding(100, 3, 1, 1, embedding_initializer="ones") for _ in range(2)]
            mine = self.keys.reshape(-1, 1, 1)
            factors = tf.constant(1 + np.arange(40.0), tf.float32)[:, None]
            self.read = [table(mine, training=False)[:, 0, 0] for table in self.tables]
            loss = sum(tf.reduce_sum(table(mine, training=True)[:, 0, 0] * factors) for table in self.tables)
            self.weights = tf.get_variable("weights", [2], initializer=tf.zeros_initializer(), use_resource=True)
            applied = tf.train.MomentumOptimizer(0.01, 0.5).minimize(
                loss, number, var_list=[table.embedding_variable for table in self.tables])
            with tf.control_dependencies([applied]):
                self.step = tf.group(self.weights.assign_add([1.0, 1.0]))
            self.start = [sok.Init(global_batch_size=1), tf.global_variables_initializer()]

    def session(self):
        session = tf.Session(graph=self.graph)
        for op in self.start:
            session.run(op)
        return session

    def saver(self, way):
        variables = self.graph.get_collection(tf.GraphKeys.GLOBAL_VARIABLES)
        with self.graph.as_default():
            if way == "named":
                return tf.train.Saver({variable.op.name: variable for variable in variables})
            if way == "set":
                return tf.train.Saver(set(variables) if tf.__version__[0] == "1" else tuple(variables))
            if way == "definition":
                return tf.train.Saver.from_proto(tf.train.Saver().to_proto())
            return tf.train.Saver(sharded=way == "sharded", restore_sequentially=way == "in_turn")

    def check(self, session):
        for rows in session.run(self.read):
            np.testing.assert_allclose(rows, 1 - 0.01 * (1 + np.arange(40.0))[:, None] * np.ones(3), rtol=1e-6)
        np.testing.assert_array_equal(session.run(self.weights), [1, 1])


def monitored(model, folder, way, steps):
    """A session of TensorFlow's hooks, with a Saver of its own or the user's; does as many steps and looks."""
    with model.graph.as_default():
        scaffold = tf.train.Scaffold(saver=tf.train.Saver()) if way == "scaffold" else None
        with tf.train.MonitoredTrainingSession(checkpoint_dir=folder, save_checkpoint_steps=1, scaffold=scaffold,
                                               hooks=[sok.InitHook(global_batch_size=1)]) as session:
            for _ in range(steps):
                session.run(model.step)
            session.run_step_fn(lambda step_context: model.check(step_context.session))


def save(folder, way, seed):
    model = Model(seed)
    if way in ("session", "scaffold"):
        monitored(model, folder, way, 1)
        return
    with model.session() as session:
        session.run(model.step)
        saver = model.saver(way)
        prefix = saver.save(session, os.path.join(folder, "model"))
    if way == "imported":
        with tf.Graph().as_default(), tf.Session() as session:
            imported = tf.train.import_meta_graph(prefix + ".meta")
            imported.restore(session, prefix)
            imported.save(session, prefix)


def restore(folder, way, seed):
    model = Model(seed)
    if way in ("session", "scaffold"):
        monitored(model, folder, way, 0)
        return
    with model.session() as session:
        model.saver("saver" if way in ("imported", "definition") else way).restore(
            session, os.path.join(folder, "model"))
        model.check(session)


tf.logging.set_verbosity(tf.logging.ERROR)
for each in WAYS:
    place = os.path.join(sys.argv[1], each)
    os.makedirs(place, exist_ok=True)
    {"save": save, "restore": restore}[sys.argv[2]](place, each, int(sys.argv[3]))
    sys.stdout.write("{} of {}\n".format(sys.argv[2], each))

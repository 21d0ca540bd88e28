"""A table that forgets in one process, with a step that can be made to wait; what it has, by key."""
import threading

import numpy as np
import tensorflow.compat.v1 as tf

from sok1x.core.embedding_variable import EmbeddingVariable
from sok1x.graph_ops.operations import embedding

DIM = 2


class Model:
    """A table with momentum's slot, whose step waits until it is let on."""

    def __init__(self, **options):
        self.table = EmbeddingVariable(rows=None, dim=DIM, initializer="zeros", **options)
        self.keys, self.gradient = tf.placeholder(tf.int64, [None]), tf.placeholder(tf.float32, [None])
        self.rows = embedding.lookup_dense(self.table.table_variables, self.keys, True)
        self.values = embedding.lookup_dense(self.table.table_variables, self.keys, False)
        self.gate = tf.placeholder(tf.int32, [])
        with tf.control_dependencies([self.rows]):
            opened = tf.py_func(self._wait, [self.gate], tf.float32)
        self.waiting, self.gates = threading.Semaphore(0), [threading.Event() for _ in range(4)]
        optimizer = tf.train.MomentumOptimizer(1.0, 0.5)
        self.step = optimizer.minimize(
            -tf.reduce_sum((self.rows + opened) * self.gradient[:, None]), var_list=[self.table])
        self.state = dict(self.table.forgetting, rows=self.table, index=self.table.index[0], count=self.table.index[1],
                          stamps=self.table.stamps, slot=optimizer.get_slot(self.table, "momentum"))
        # A step that waits keeps a thread of its own.
        self.session = tf.Session(config=tf.ConfigProto(inter_op_parallelism_threads=8, use_per_session_threads=True))
        self.session.run(tf.global_variables_initializer())

    def _wait(self, gate):
        if gate >= 0:
            self.waiting.release()
            assert self.gates[gate].wait(120)
        return np.float32(0)

    def train(self, keys, gradients=None, gate=-1):
        gradients = np.zeros(len(keys)) if gradients is None else gradients
        self.session.run(self.step, {self.keys: keys, self.gradient: gradients, self.gate: gate})

    def look_up(self, keys):
        self.session.run(self.rows.op, {self.keys: keys})

    def read(self, keys):
        return self.session.run(self.values, {self.keys: keys})[:, 0].tolist()

    def held(self):
        """The keys in the table."""
        index = self.session.run(self.table.index[0])
        return set(index[index[:, 1] >= 0, 0].tolist())



def by_key(state):
    """{key: (row's values, slot, last tick, frequency)}."""
    return {key: (state["rows"][row].tolist(), state["slot"][row].tolist(), state["used"][row],
                  state["frequency"][row] if "frequency" in state else None)
            for key, row in state["index"][state["index"][:, 1] >= 0].tolist()}

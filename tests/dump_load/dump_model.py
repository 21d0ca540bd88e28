"""A small model for tests of `sok.dump` and `sok.load`: two variables, a layer's table, an optimizer, a session."""
import numpy as np
import tensorflow.compat.v1 as tf

import sok1x as sok
from sok1x.graph_ops.operations import embedding

v1 = tf
v1.logging.set_verbosity(v1.logging.ERROR)

ROWS, D = 11, 3


class Model:
    """Its graph is finalized. All ranks make the same one, and call the same methods.

    Args:
        optimizer: function that makes what trains all tables, wrapped; None: none.
        modes: of the variables 'one' and 'two/2'.
        keys: those that the table has met, of `key_dtype`.
    """

    def __init__(self, optimizer=None, modes=(None, "localized:0"), keys=(5, 7, 1000, 2 ** 31), key_dtype="int64",
                 rows=ROWS):
        self.keys = np.array(keys, key_dtype)
        with tf.Graph().as_default() as graph:
            first = np.random.RandomState(0).randn(rows, D).astype(np.float32)
            self.one = sok.Variable(first, name="one", mode=modes[0])
            self.two = sok.Variable(-first[:5], name="two/2", mode=modes[1])
            self.hashed = sok.EmbeddingVariable(rows=16, dim=D, key_dtype=key_dtype, initializer="normal")
            self.tables = [self.one, self.two, self.hashed]
            self.insert = embedding.lookup_dense(self.hashed.table_variables, tf.constant(self.keys), True)
            self.look = embedding.lookup_dense(self.hashed.table_variables, tf.constant(self.keys), False)
            self.wrapped = self.step = None
            if optimizer is not None:
                self.wrapped = sok.OptimizerWrapper(optimizer())
                # Every row moves by an amount of its own.
                self.step = self.wrapped.apply_gradients([(0.5 + table, table) for table in self.tables])
            init = v1.global_variables_initializer()
            graph.finalize()
            self.session = v1.Session(graph=graph)
            self.session.run(init)
            if len(keys):
                self.session.run(self.insert)

    def train(self, steps=2):
        for _ in range(steps):
            self.session.run(self.step)

    def slots(self, table):
        """{name: variable}"""
        return {} if self.wrapped is None else {
            name: self.wrapped.get_slot(table, name) for name in self.wrapped.get_slot_names()}

    def state(self):
        """{name: value} of everything that belongs to the tables, on this rank; of rows only those in use."""
        found = {}
        for table in self.tables:
            rows = self.session.run({variable.op.name: variable for variable in [table] + list(
                self.slots(table).values())})
            index = self.session.run({variable.op.name: variable for variable in table.index})
            used = index[table.m_var_name + "/count"] if index else None
            found.update(index, **{name: values[:used] for name, values in rows.items()})
        return found

    def dump(self, path, optimizer=True):
        sok.dump(path, self.tables, self.wrapped if optimizer else None, self.session)

    def load(self, path, optimizer=True):
        sok.load(path, self.tables, self.wrapped if optimizer else None, self.session)


def same(one, two):
    """Whether two states are equal, bit for bit."""
    return one.keys() == two.keys() and all(
        one[name].dtype == two[name].dtype and one[name].tobytes() == two[name].tobytes() for name in one)

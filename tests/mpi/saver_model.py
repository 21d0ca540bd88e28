"""A table with all that a Saver does, for the programs that run on several ranks."""
import numpy as np
import tensorflow.compat.v1 as tf

import sok1x as sok
from sok1x.graph_ops.operations import embedding

v1 = tf
v1.logging.set_verbosity(v1.logging.ERROR)


class Model:
    """One table in a graph and a session of its own. All ranks make the same ones, and call the same methods."""

    def __init__(self, folder, rows, dim, key_dtype="int64", initialize=True, **options):
        self.folder, self.key_dtype = folder, key_dtype
        with tf.Graph().as_default():
            self.table = sok.EmbeddingVariable(rows=rows, dim=dim, key_dtype=key_dtype,
                                               **dict(dict(initializer="normal"), **options))
            self._keys = v1.placeholder(key_dtype, [None])
            self._insert = embedding.lookup_dense(self.table.table_variables, self._keys, True)
            self._read = embedding.lookup_dense(self.table.table_variables, self._keys, False)
            saver = sok.Saver()
            self.dump = saver.dump_to_file(self.table, folder)
            self.restore = saver.restore_from_file(self.table, folder)
            self.tensors = [v1.placeholder(tf.float32, [None, dim]) for _ in range(2)]
            self.load = saver.load_embedding_values(self.table, self.tensors)
            self.state = [self.table] + self.table.index
            init, variables = sok.Init(global_batch_size=1), v1.global_variables_initializer()
            self.session = v1.Session()
            self.session.run(init)
            if initialize:
                self.session.run(variables)

    def insert(self, keys):
        return self.session.run(self._insert, {self._keys: np.asarray(keys).astype(self.key_dtype)})

    def read(self, keys):
        return self.session.run(self._read, {self._keys: np.asarray(keys).astype(self.key_dtype)})

    def run(self, op, feed=None):
        assert self.session.run(op, feed) == b"OK"

    def parts(self, values):
        """What to feed the op `load`: the values in two parts."""
        middle = len(values) // 2
        return dict(zip(self.tensors, (values[:middle], values[middle:])))

    def used(self):
        return int(self.session.run(self.table.index[1]))

    def values(self):
        return self.session.run(self.state)

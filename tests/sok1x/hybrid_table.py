"""A table in host memory with a small cache, in one process."""
import tensorflow.compat.v1 as tf

import sok1x as sok


class Small:
    """A table with a cache of 4 rows, all keys of which have been trained once, and its session."""

    def __init__(self, keys=12, optimizer=None, **options):
        self.graph = tf.Graph()
        with self.graph.as_default():
            self.table = sok.DynamicVariable(2, "1", name="t", **dict(dict(cache_rows=4), **options))
            self.keys = tf.placeholder(tf.int64, [None])
            self.rows = sok.all2all_dense_embedding(self.table, self.keys)
            self.optimizer = optimizer or tf.train.MomentumOptimizer(1.0, 0.5)
            self.step = self.optimizer.apply_gradients([(tf.gradients(tf.reduce_sum(self.rows), self.table)[0],
                                                         self.table)])
            self.exported = sok.export(self.table)
            self.initial = tf.global_variables_initializer()
            self.session = tf.Session()
        self.session.run(self.initial)
        for key in range(keys):
            self.train(key)

    def train(self, *keys):
        self.session.run(self.step, {self.keys: keys})

    def export(self):
        return {key: row.tolist() for key, row in zip(*self.session.run(self.exported))}

    def number(self, place):
        return int(self.session.run(self.table.forgetting["tiers"])[place])

"""A DeepRec table that is trained key by key, for tests of its options."""
import tensorflow.compat.v1 as tf

import sok1x as sok
from sok1x import deeprec


class Trained:
    """A table, and a step that takes 0.1 from each float of some keys' rows."""

    def __init__(self, option, **arguments):
        self.table = deeprec.get_embedding_variable("items", 2, ev_option=option, **arguments)
        self.ids = tf.placeholder(tf.int64, [None])
        self.rows, = deeprec.group_embedding_lookup([self.table], [self.ids])
        self.train = tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(self.rows))
        self.keys = sok.export(self.table)[0]
        self.saver = tf.train.Saver()
        self.session = tf.Session()
        self.session.run(tf.global_variables_initializer())

    def step(self, *keys):
        return self.session.run([self.rows, self.train], {self.ids: keys})[0].tolist()

    def saved(self, folder):
        self.saver.save(self.session, str(folder / "model"))
        return sorted(self.session.run(self.keys).tolist())

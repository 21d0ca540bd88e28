"""The model of program_failures.py."""
import numpy as np
import tensorflow.compat.v1 as tf

import sok1x as sok


class Model:
    """One layer, its training step and an evaluation, in the default graph."""

    def __init__(self, rows=100, use_hashtable=True, dim=4, count=1):
        self.keys = tf.placeholder(tf.int64, [None, 1, 1])
        self.layers = [sok.All2AllDenseEmbedding(rows, dim, 1, 1, use_hashtable=use_hashtable) for _ in range(count)]
        outputs = [layer(self.keys) for layer in self.layers]
        self.loss = tf.add_n([tf.reduce_sum(output) for output in outputs])
        variables = [layer.embedding_variable for layer in self.layers]
        self.train = tf.train.GradientDescentOptimizer(0.1).minimize(self.loss, var_list=variables)
        self.evaluated = self.layers[0](self.keys, training=False)
        self.init = tf.global_variables_initializer()

    def feed(self, keys):
        return {self.keys: np.array(keys, np.int64).reshape(-1, 1, 1)}


def session(model, init):
    sess = tf.Session()
    sess.run(init)
    sess.run(model.init)
    return sess

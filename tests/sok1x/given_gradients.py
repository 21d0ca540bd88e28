"""A table, what may be given to an optimizer in the place of its lookup's gradient, and the optimizers that take it."""
import tensorflow.compat.v1 as tf
from sok1x_cases import dense_layer

import sok1x as sok

V, D = 8, 4


class Model:
    """A table of V rows, its lookup's gradient, and a larger table's."""

    def __init__(self):
        layers = [dense_layer(max_vocabulary_size_per_gpu=rows, use_hashtable=False, embedding_initializer="ones")
                  for rows in (V, 4 * V)]
        self.shard, self.larger = [layer.embedding_variable for layer in layers]
        keys = tf.constant([[[0, 1, 2], [3, 2, 1]]], tf.int64)
        self.out = layers[0](keys)
        self.slices = tf.gradients(self.out, self.shard)[0]
        self.others = tf.gradients(layers[1](7 * keys), self.larger)[0]


OPTIMIZERS = {
    "operations.gradient_descent.step": lambda: sok.DistributedOptimizer(tf.train.GradientDescentOptimizer(0.5)),
    "operations.adam.lazy_step": lambda: sok.tf.keras.optimizers.LazyAdamOptimizer(0.5),
    "operations.adam.step": lambda: sok.optimizers.Adam(0.5),
}

"""What the tests of incremental_dump share: a small model, and a dump whose values are checked."""
import numpy as np
import tensorflow.compat.v1 as tf
from sok1x_cases import dense_layer

import sok1x as sok

v1 = tf
V, D = 32, 4


class Model:
    """A layer with keys [K] to feed, a training op, and what should be known of each key."""

    def __init__(self, make=dense_layer, optimizer=None, global_step=True, training=True, **options):
        self.layer = make(max_vocabulary_size_per_gpu=V, embedding_initializer="normal", **options)
        self.shard = self.layer.embedding_variable
        self.keys = v1.placeholder(self.layer.key_dtype, [None])
        self.looked_up = self.look_up(make, training)
        self.loss = tf.reduce_sum(self.looked_up ** 2)
        self.number = v1.train.get_or_create_global_step() if global_step else None
        optimizer = optimizer or v1.train.GradientDescentOptimizer(0.1)
        if isinstance(optimizer, tf.keras.optimizers.Optimizer):
            step = optimizer.apply_gradients(zip(tf.gradients(self.loss, [self.shard]), [self.shard]))
            with tf.control_dependencies([step]):
                self.step = v1.assign_add(self.number, 1)
        else:
            self.step = optimizer.minimize(self.loss, self.number)

    def look_up(self, make, training):
        if make is dense_layer:
            return self.layer(tf.reshape(self.keys, [-1, 2, 3]), training=training)
        place = tf.range(tf.size(self.keys, out_type=tf.int64))
        bags = tf.SparseTensor(tf.stack([place, 0 * place], 1), self.keys, [tf.size(self.keys, out_type=tf.int64), 3])
        return self.layer(bags, training)


def dump(run, model, since):
    """Keys of a dump, after a check of its values."""
    keys, values = sok.incremental_dump(model.shard, since, run)
    rows = run.run(model.shard)
    assert keys.dtype.name == model.layer.key_dtype.name and values.dtype == np.float32
    assert values.shape == (len(keys), D)
    if model.layer.use_hashtable:
        slots = run.run(model.shard.index[0])
        row_of = {key: row for key, row in slots.tolist() if row >= 0}
        numbers = [row_of[int(key)] for key in keys]
    else:
        numbers = keys.astype(np.int64).tolist()
    assert numbers == sorted(numbers)
    np.testing.assert_array_equal(values, rows[numbers])
    return keys.tolist()

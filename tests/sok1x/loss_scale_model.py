"""What the tests of LossScaleOptimizer share: optimizers to wrap, a small model, its state."""
import numpy as np
import stock_lazy_adam
import tensorflow.compat.v1 as tf
from sok1x_cases import dense_layer

import sok1x as sok

v1 = tf
Scaled = sok.tf.keras.mixed_precision.LossScaleOptimizer
KEYS = np.array([[[1, 2, 2], [3, 1, 0]]])
OPTIMIZERS = {
    "SGD": lambda: v1.train.GradientDescentOptimizer(0.1),
    "Momentum": lambda: v1.train.MomentumOptimizer(0.1, 0.9),
    "Adam": lambda: v1.train.AdamOptimizer(0.1),
    "contrib": lambda: stock_lazy_adam.LazyAdamOptimizer(0.1),
    "lazy": lambda: sok.tf.keras.optimizers.LazyAdamOptimizer(0.1),
    "distributed": lambda: sok.DistributedOptimizer(sok.tf.keras.optimizers.LazyAdamOptimizer(0.1)),
    "Keras": lambda: tf.keras.optimizers.Adam(0.1),
    "KerasMomentum": lambda: tf.keras.optimizers.SGD(0.1, momentum=0.9),
    "ours": lambda: sok.tf.keras.optimizers.Adam(0.1),
    "plugin": lambda: sok.optimizers.Adam(0.1),
    "KerasDistributed": lambda: sok.DistributedOptimizer(tf.keras.optimizers.Adagrad(0.1))}


def model(table_only=False):
    """Variables, the loss, and a placeholder by which it is multiplied."""
    layer = dense_layer(use_hashtable=False, embedding_initializer="normal")
    weights = v1.get_variable("weights", initializer=np.linspace(1, 2, 4).astype(np.float32), use_resource=True)
    factor, keys = v1.placeholder_with_default(1.0, []), v1.placeholder_with_default(KEYS, [None, 2, 3])
    loss = tf.reduce_sum(tf.square(layer(keys) * weights)) * factor
    return [layer.embedding_variable] + ([] if table_only else [weights]), loss, factor


def step_of(optimizer, loss, variables, number=None):
    gradients = optimizer.get_unscaled_gradients(tf.gradients(optimizer.get_scaled_loss(loss), variables))
    more = {} if number is None else {"global_step": number}
    return optimizer.apply_gradients(zip(gradients, variables), **more)


def state():
    """All variables but those of loss scales, and the stamps: gradients stamp rows before they are seen to be bad."""
    return [variable for variable in v1.global_variables() if not any(
        word in variable.name for word in ("loss_scale", "good_steps", "/stamps", "/steps"))]

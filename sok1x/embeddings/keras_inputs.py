"""Sparse keys that a functional Keras model makes of its inputs."""
from typing import Any

import tensorflow.compat.v1 as tf

from sok1x.graph_ops.bridge.tensorflow_versions import keras_base_layer_utils as base_layer_utils
from sok1x.graph_ops.bridge.tensorflow_versions import tensor_util


def known_to_keras(keys: Any) -> Any:
    """Keys that Keras can follow back to the tf.keras.Input from which they come.

    Where ops outside all layers make a SparseTensor of a tf.keras.Input, Keras follows its parts, not the SparseTensor:
    the layer called with it would be no part of the model, and fit would never train its table.

    Args:
        keys: what a layer is called with.

    Returns:
        The same; of such a tf.SparseTensor the same values, out of a Lambda layer, which becomes a part of the model.

    Example:
        >>> import tensorflow as tf
        >>> from sok1x.embeddings import keras_inputs
        >>> with tf.Graph().as_default():
        ...     flat = tf.reshape(tf.keras.Input([2], dtype=tf.int64), [-1, 1])  # two slots of one key
        ...     where = tf.where(flat >= 0)
        ...     keys = tf.SparseTensor(where, tf.gather_nd(flat, where), tf.shape(flat, out_type=tf.int64))
        ...     layer = keras_inputs.known_to_keras(keys)._keras_history.layer
        >>> type(layer).__name__
        'Lambda'
    """
    if (not isinstance(keys, tf.SparseTensor) or hasattr(keys, "_keras_history")
            or base_layer_utils.call_context().in_call
            or not base_layer_utils.uses_keras_history([keys.indices, keys.values])):
        return keys
    shape = tensor_util.constant_value(keys.dense_shape)
    # Keras cannot follow a constant.
    parts = [keys.indices, keys.values] + ([keys.dense_shape] if shape is None else [])
    return tf.keras.layers.Lambda(lambda given: tf.SparseTensor(*given, *([] if shape is None else [shape])))(parts)

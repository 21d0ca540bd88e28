"""Initial values that TensorFlow takes from checkpoints: tf.train.init_from_checkpoint, an Estimator's warm start."""
from typing import Any

import tensorflow.compat.v1 as tf

from sok1x.graph_ops.bridge.tensorflow_versions import tensor_util


def has_no_rows(initializer: Any) -> bool:
    """Whether a table's new initializer takes its rows from a checkpoint in which no key has a row yet.

    Such a checkpoint is what tf.keras.estimator.model_to_estimator makes of a model that has not been trained.

    Args:
        initializer: the op by which TensorFlow would replace the table's own initializer.

    Returns:
        False also where the checkpoint does not tell.

    Raises:
        tf.errors.NotFoundError: there is no such checkpoint.

    Example:
        >>> import tensorflow as tf
        >>> from sok1x.core import warm_start
        >>> with tf.Graph().as_default():
        ...     warm_start.has_no_rows(tf.no_op())
        False
    """
    op = initializer
    while op.type != "RestoreV2":
        if not op.inputs:
            return False
        op = op.inputs[len(op.inputs) - 1].op  # of an assignment, the value
    prefix, names = (tensor_util.constant_value(tensor) for tensor in op.inputs[:2])
    if prefix is None or names is None:
        return False
    checkpoint = tf.train.load_checkpoint(prefix.item().decode())
    count = names[0].decode() + "/count"
    return checkpoint.has_tensor(count) and int(checkpoint.get_tensor(count)) == 0

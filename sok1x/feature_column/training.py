"""Whether what a column looks up gives unseen keys rows."""
from typing import Any

import tensorflow.compat.v1 as tf

from sok1x.embeddings import learning_phase
from sok1x.graph_ops.bridge import callers

# `Estimator._call_model_fn` has its mode in a local variable, and builds each graph for one mode alone. Releases after
# 2.15 have no Estimator.
_MODEL_FN = tf.estimator.Estimator._call_model_fn.__code__ if hasattr(tf, "estimator") else None


def trains(trainable: bool, ids: tf.SparseTensor) -> Any:
    """Whether a lookup that is being built trains.

    Args:
        trainable: whether the column and what resolves it say so.
        ids: what is looked up, a tf.SparseTensor of any shape.

    Returns:
        False where nothing is to be trained: `trainable` is False, or an Estimator evaluates or predicts. In Keras'
        models Keras' learning phase, a scalar bool tensor of shape []. Else True.

    Example:
        >>> import tensorflow as tf
        >>> from sok1x.feature_column import training
        >>> with tf.Graph().as_default():
        ...     ids = tf.SparseTensor([[0, 0]], tf.constant([7], tf.int64), [1, 1])
        ...     training.trains(True, ids), training.trains(False, ids)
        (True, False)
    """
    if not trainable:
        return False
    for frame in callers.frames():
        if frame.f_code is _MODEL_FN:
            return bool(frame.f_locals["mode"] == tf.estimator.ModeKeys.TRAIN)
    return learning_phase.untold(ids)

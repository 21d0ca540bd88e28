"""Whether a lookup trains that is a function, and no layer of Keras, which tells its layers alone.

New keys get rows in what trains, of tables that grow; an evaluation changes no table.
"""
from typing import Any, Union

import tensorflow.compat.v1 as tf

from sok1x.embeddings import call_checks, learning_phase
from sok1x.graph_ops.bridge import callers
from sok1x.graph_ops.bridge.tensorflow_versions import is_eager_outside
from sok1x.graph_ops.bridge.tensorflow_versions import keras_backend as backend
from sok1x.graph_ops.bridge.tensorflow_versions import keras_base_layer_utils as layer_utils

# `Estimator._call_model_fn` has its mode in a local variable, and builds each graph for one mode alone. Releases after
# 2.15 have no Estimator.
_MODEL_FN = tf.estimator.Estimator._call_model_fn.__code__ if hasattr(tf, "estimator") else None


def lookup_trains(function: str, training: Any, ids: Any) -> Union[bool, tf.Tensor]:
    """Whether a lookup trains.

    Args:
        function: who looks up, below `sok1x.`, for messages.
        training: what the user says: a bool or a scalar bool tensor; or None.
        ids: what is looked up, a tensor, SparseTensor or RaggedTensor of any shape.

    Returns:
        What the user says, a bool or a scalar bool tensor. If that is None: what the layer or model of Keras around it
        has been told; where an Estimator evaluates or predicts, False; else as `learning_phase.untold`.

    Raises:
        TypeError: training is something else.
        ValueError: it is a tensor, but no scalar.

    Example:
        >>> import tensorflow as tf
        >>> from sok1x.embeddings.lookup_training import lookup_trains
        >>> with tf.Graph().as_default():
        ...     ids = tf.ragged.constant([[7], []])
        ...     lookup_trains("lookup_sparse", None, ids), lookup_trains("lookup_sparse", False, ids)
        (True, False)
    """
    if training is not None:
        return call_checks.told("sok1x." + function, training)
    around = layer_utils.call_context()
    if around.in_call and around.training is not None:
        return tf.cast(around.training, tf.bool) if isinstance(around.training, tf.Tensor) else bool(around.training)
    if not is_eager_outside():
        for frame in callers.frames():
            if frame.f_code is _MODEL_FN:
                return bool(frame.f_locals["mode"] == tf.estimator.ModeKeys.TRAIN)
    return learning_phase.untold(ids)


def guarded(rows: tf.Tensor, told: Any, trains: Any) -> tf.Tensor:
    """What such a lookup gives: see `learning_phase.guarded`.

    Args:
        rows: floats.
        told: `training` as the user has given it.
        trains: what `lookup_trains` has made of it.

    Example:
        >>> import tensorflow as tf
        >>> from sok1x.embeddings.lookup_training import guarded
        >>> with tf.Graph().as_default():
        ...     rows = tf.ones([2, 3])
        ...     guarded(rows, None, True) is rows
        True
    """
    is_phase = told is None and isinstance(trains, tf.Tensor) and not tf.executing_eagerly() and \
        backend._GRAPH_LEARNING_PHASES.get(tf.get_default_graph()) is trains
    return learning_phase.guarded(rows, trains) if is_phase else rows

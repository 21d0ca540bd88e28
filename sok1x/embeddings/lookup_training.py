"""Whether a lookup trains that is a function, and no layer of Keras, which tells its layers alone.

New keys get rows in what trains, of tables that grow; an evaluation changes no table.
"""
from typing import Any, Callable, Union

import tensorflow.compat.v1 as tf

from sok1x.embeddings import call_checks, learning_phase
from sok1x.graph_ops.bridge import callers
from sok1x.graph_ops.bridge.tensorflow_versions import is_eager_outside
from sok1x.graph_ops.bridge.tensorflow_versions import keras_base_layer_utils as layer_utils

# `Estimator._call_model_fn` has its mode in a local variable, and builds each graph for one mode alone. Releases after
# 2.15 have no Estimator.
_MODEL_FN = tf.estimator.Estimator._call_model_fn.__code__ if hasattr(tf, "estimator") else None


def looked_up(function: str, training: Any, ids: Any, look_up: Callable[[Any], tf.Tensor]) -> tf.Tensor:
    """Looks up as the user, or who runs the lookup, says that it trains.

    Args:
        function: who looks up, below `sok1x.`, for messages.
        training: what the user says: a bool or a scalar bool tensor. None: what the layer or model of Keras around it
            has been told; where an Estimator evaluates or predicts, False; else as `learning_phase.untold`.
        ids: what is looked up, a tensor, SparseTensor or RaggedTensor of any shape.
        look_up: the lookup, given whether it trains, a bool or a scalar bool tensor.

    Returns:
        What it gives: see `learning_phase.guarded`.

    Raises:
        TypeError: training is something else.
        ValueError: it is a tensor, but no scalar.

    Example:
        >>> import tensorflow as tf
        >>> from sok1x.embeddings.lookup_training import looked_up
        >>> with tf.Graph().as_default():
        ...     ids = tf.ragged.constant([[7], []])
        ...     [looked_up("lookup_sparse", training, ids, lambda trains: trains) for training in (None, False)]
        [True, False]
    """
    told = _told_around() if training is None else call_checks.told("sok1x." + function, training)
    trains = learning_phase.untold(ids) if told is None else told
    return learning_phase.guarded(look_up(trains), told, trains)


def _told_around() -> Union[bool, tf.Tensor, None]:
    """What the Keras layer around has been told, and what an Estimator does; None: nothing."""
    around = layer_utils.call_context()
    if around.in_call and around.training is not None:
        return tf.cast(around.training, tf.bool) if isinstance(around.training, tf.Tensor) else bool(around.training)
    if not is_eager_outside():
        for frame in callers.frames():
            if frame.f_code is _MODEL_FN:
                return bool(frame.f_locals["mode"] == tf.estimator.ModeKeys.TRAIN)
    return None

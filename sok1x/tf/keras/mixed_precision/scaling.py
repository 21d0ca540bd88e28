"""What a LossScaleOptimizer is made of: loss scales, scaled gradients, the collection of train ops."""
import contextlib
from typing import Any, Iterator, List

import tensorflow.compat.v1 as tf

from sok1x.core.options.given_numbers import is_number
from sok1x.graph_ops.bridge.tensorflow_versions import loss_scales as scales


def loss_scale_of(given: Any) -> scales.LossScale:
    """The loss scale that a user means.

    Args:
        given: a number of 1 or more, 'dynamic', or a `tf.train.experimental.LossScale`.

    Returns:
        A `tf.train.experimental.LossScale`.

    Raises:
        TypeError: it is something else.
        ValueError: a number below 1, another word, or eager execution.

    Example:
        >>> from sok1x.tf.keras.mixed_precision import scaling
        >>> scaling.loss_scale_of(64)
        FixedLossScale(64.0)
    """
    if tf.executing_eagerly():
        raise ValueError("LossScaleOptimizer: got eager execution, expected a graph; build the model under "
                         "`with tf.Graph().as_default():`")
    if isinstance(given, scales.LossScale):
        return given
    if is_number(given):
        return scales.FixedLossScale(float(given))
    if isinstance(given, str) and given == "dynamic":
        with tf.device("/device:CPU:0"):  # the host decides what to do; a GPU would have to be waited for
            return scales.DynamicLossScale()
    raise (ValueError if isinstance(given, str) else TypeError)(
        "LossScaleOptimizer: loss_scale: got {!r} of type {}, expected a number, 'dynamic' or a "
        "tf.train.experimental.LossScale".format(given, type(given).__name__))


def times(gradient: Any, factor: tf.Tensor) -> Any:
    """A gradient times a number.

    Args:
        gradient: a float tensor of any shape, or tf.IndexedSlices.
        factor: a scalar float32 tensor of shape [].

    Returns:
        The same kind, of the same dtype.

    Example:
        >>> import tensorflow as tf
        >>> from sok1x.tf.keras.mixed_precision import scaling
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     session.run(scaling.times(tf.constant([3.0]), tf.constant(0.5))).tolist()
        [1.5]
    """
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(times(gradient.values, factor), gradient.indices, gradient.dense_shape)
    if gradient.dtype == tf.float16:  # in which the factor itself may be zero
        return tf.cast(tf.cast(gradient, tf.float32) * factor, tf.float16)
    return gradient * tf.cast(factor, gradient.dtype)


@contextlib.contextmanager
def train_op() -> Iterator[List[tf.Operation]]:
    """The graph's collection of train ops takes what the block appends, instead of what an optimizer adds within it.

    The optimizer's op is inside a condition, and cannot be fetched.

    Yields:
        A list, to which the block appends its op.

    Example:
        >>> import tensorflow as tf
        >>> from sok1x.tf.keras.mixed_precision import scaling
        >>> with tf.Graph().as_default():
        ...     with scaling.train_op() as added:
        ...         tf.add_to_collection("train_op", tf.no_op(name="inner"))
        ...         added.append(tf.no_op(name="outer"))
        ...     [op.name for op in tf.get_collection("train_op")]
        ['outer']
    """
    collected = tf.get_collection_ref(tf.GraphKeys.TRAIN_OP)
    before = len(collected)
    added: List[tf.Operation] = []
    yield added
    if len(collected) > before:
        collected[before:] = added

"""Means over the samples of all ranks."""
from typing import Any, Optional, Sequence, Tuple

import tensorflow.compat.v1 as tf

from sok1x.graph_ops.bridge.tensorflow_versions import metrics_impl, weights_broadcast_ops
from sok1x.metrics import accumulators


def mean(values: Any, weights: Any = None, metrics_collections: Optional[Sequence[str]] = None,
         updates_collections: Optional[Sequence[str]] = None,
         name: Optional[str] = None) -> Tuple[tf.Tensor, tf.Tensor]:
    """The mean of all values that any rank has had since the local variables were initialized.

    It takes and gives what `tf.metrics.mean` does. `update_op` counts this rank's batch and waits for no other rank, so
    that ranks may update in different steps and numbers; what it gives is the mean of this rank's own values. `value`
    adds up the ranks' sums, in one exchange: all ranks run it alike, as any op of sok1x that exchanges.

    Args:
        values: numbers, of any shape.
        weights: None, or numbers of a shape that broadcasts to that of `values`.
        metrics_collections: collections for `value`.
        updates_collections: collections for `update_op`.
        name: of the scope.

    Returns:
        (value, update_op): float32 [], 0 where no rank has had values, or weights add up to less than 0.

    Raises:
        ValueError: weights do not broadcast to values.
        RuntimeError: eager execution is on.
        tf.errors.FailedPreconditionError: (when run) `sok.Init` or `tf.local_variables_initializer()` has not.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     fed = tf.placeholder(tf.float32, [None])
        ...     value, update = sok.metrics.mean(fed)
        ...     _ = session.run([sok.Init(global_batch_size=1), tf.local_variables_initializer()])
        ...     for batch in ([1.0, 2.0], [6.0]):
        ...         _ = session.run(update, {fed: batch})
        ...     float(session.run(value))
        3.0
    """
    with accumulators.scope("mean", name, (values, weights)):
        values = tf.cast(tf.convert_to_tensor(values), tf.float64)
        if weights is None:
            count = tf.cast(tf.size(values), tf.float64)
        else:
            weights = weights_broadcast_ops.broadcast_weights(tf.cast(weights, tf.float64), values)
            values, count = values * weights, tf.reduce_sum(weights)
        return accumulators.stream(
            [("total", tf.reduce_sum(values)), ("count", count)],
            lambda total, count: tf.cast(tf.div_no_nan(total, tf.maximum(count, 0.0)), tf.float32),
            metrics_collections, updates_collections)


def accuracy(labels: Any, predictions: Any, weights: Any = None, metrics_collections: Optional[Sequence[str]] = None,
             updates_collections: Optional[Sequence[str]] = None,
             name: Optional[str] = None) -> Tuple[tf.Tensor, tf.Tensor]:
    """How often predictions were the labels, of all that any rank has had.

    It takes and gives what `tf.metrics.accuracy` does; of updates and ranks see `mean`.

    Args:
        labels: the truth, a tensor of any dtype and shape.
        predictions: of the same shape, or with or without a last dimension of 1.
        weights: None, or numbers of a shape that broadcasts to that of `labels`.
        metrics_collections: collections for `value`.
        updates_collections: collections for `update_op`.
        name: of the scope.

    Returns:
        (value, update_op): float32 [], 0 where no rank has had samples.

    Raises:
        ValueError: shapes that do not fit.
        RuntimeError: eager execution is on.
        tf.errors.FailedPreconditionError: (when run) `sok.Init` or `tf.local_variables_initializer()` has not.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     value, update = sok.metrics.accuracy([1, 0, 2, 3], [1, 1, 2, 3])
        ...     _ = session.run([sok.Init(global_batch_size=1), tf.local_variables_initializer()])
        ...     _ = session.run(update)
        ...     float(session.run(value))
        0.75
    """
    with accumulators.scope("accuracy", name, (predictions, labels, weights)):
        predictions, labels, weights = metrics_impl._remove_squeezable_dimensions(
            predictions=tf.convert_to_tensor(predictions), labels=tf.convert_to_tensor(labels), weights=weights)
        predictions.shape.assert_is_compatible_with(labels.shape)
        if labels.dtype != predictions.dtype:
            predictions = tf.cast(predictions, labels.dtype)
        return mean(tf.equal(predictions, labels), weights, metrics_collections, updates_collections, "is_correct")

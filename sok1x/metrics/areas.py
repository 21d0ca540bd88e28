"""Areas under curves, over the samples of all ranks."""
from typing import Any, List, Optional, Sequence, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

from sok1x.graph_ops.bridge.tensorflow_versions import metrics_impl, searchsorted, weights_broadcast_ops
from sok1x.metrics import accumulators

_METHODS = ("trapezoidal", "careful_interpolation", "minoring", "majoring")
_EPSILON = 1e-6  # as tf.metrics.auc keeps divisors from 0


def auc(labels: Any, predictions: Any, weights: Any = None, num_thresholds: int = 200,
        metrics_collections: Optional[Sequence[str]] = None, updates_collections: Optional[Sequence[str]] = None,
        curve: str = "ROC", name: Optional[str] = None, summation_method: str = "trapezoidal",
        thresholds: Optional[Sequence[float]] = None) -> Tuple[tf.Tensor, tf.Tensor]:
    """The approximate area under a curve, of all samples that any rank has had.

    It takes and gives what `tf.metrics.auc` does, by the same formulas, in float32: what one process would get that has
    all ranks' samples. Samples are counted by the thresholds between which their predictions lie, so that an update
    takes no [num_thresholds, samples] matrices. Of updates and ranks see `mean`.

    Args:
        labels: the truth, a tensor of any shape, cast to bool.
        predictions: floats in [0, 1], of the same shape.
        weights: None, or numbers of a shape that broadcasts to that of `labels`.
        num_thresholds: how many points the curve has: the result is the better the more there are.
        metrics_collections: collections for `value`.
        updates_collections: collections for `update_op`.
        curve: 'ROC', or 'PR' (precision and recall).
        name: of the scope.
        summation_method: 'trapezoidal', 'careful_interpolation' (for 'PR'), 'minoring' or 'majoring'.
        thresholds: the points, in place of evenly spaced ones; below 0 and above 1 there is always one.

    Returns:
        (value, update_op): float32 [].

    Raises:
        ValueError: an unknown curve or method, fewer than 2 thresholds, or shapes that do not fit.
        RuntimeError: eager execution is on.
        tf.errors.InvalidArgumentError: (when run) a prediction is not in [0, 1].
        tf.errors.FailedPreconditionError: (when run) `sok.Init` or `tf.local_variables_initializer()` has not.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     value, update = sok.metrics.auc([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8])
        ...     _ = session.run([sok.Init(global_batch_size=1), tf.local_variables_initializer()])
        ...     _ = session.run(update)
        ...     round(float(session.run(value)), 5)
        0.75
    """
    if curve not in ("ROC", "PR"):
        raise ValueError("sok1x.metrics.auc: curve: got {!r}, expected 'ROC' or 'PR'".format(curve))
    if summation_method not in _METHODS:
        raise ValueError("sok1x.metrics.auc: summation_method: got {!r}, expected one of {}".format(
            summation_method, ", ".join(_METHODS)))
    if thresholds is None and num_thresholds < 2:
        raise ValueError("sok1x.metrics.auc: num_thresholds: got {}, expected 2 or more".format(num_thresholds))
    with accumulators.scope("auc", name, (labels, predictions, weights)):
        points = _points(num_thresholds, thresholds)
        predictions = tf.cast(predictions, tf.float32)
        in_range = [check(predictions, tf.constant(bound, tf.float32),
                          message="sok1x.metrics.auc: predictions must be in [0, 1]")
                    for check, bound in ((tf.debugging.assert_greater_equal, 0.0),
                                         (tf.debugging.assert_less_equal, 1.0))]
        with tf.control_dependencies(in_range):
            predictions, labels, weights = metrics_impl._remove_squeezable_dimensions(
                predictions=tf.identity(predictions), labels=tf.cast(labels, tf.bool), weights=weights)
        predictions.shape.assert_is_compatible_with(labels.shape)
        samples = tf.ones_like(predictions, tf.float64)
        if weights is not None:
            samples = weights_broadcast_ops.broadcast_weights(tf.cast(weights, tf.float64), samples)
        # Above how many thresholds a prediction is.
        place = searchsorted(tf.constant(points), tf.reshape(predictions, [-1]))
        positive = tf.cast(labels, tf.float64)
        counted = [(what, _histogram(tf.reshape(samples * of, [-1]), place, len(points)))
                   for what, of in (("positives", positive), ("negatives", 1 - positive))]
        return accumulators.stream(
            counted, lambda positives, negatives: _area(positives, negatives, curve, summation_method),
            metrics_collections, updates_collections)


def _points(count: int, thresholds: Optional[Sequence[float]]) -> np.ndarray:
    """float32 [T]: the thresholds as tf.metrics.auc has them."""
    between: List[float] = sorted(thresholds) if thresholds is not None else [
        (i + 1) * 1.0 / (count - 1) for i in range(count - 2)]
    return np.array([0.0 - 1e-7] + between + [1.0 + 1e-7], np.float32)


def _histogram(values: tf.Tensor, place: tf.Tensor, points: int) -> tf.Tensor:
    """float64 [T + 1]: sums of the values of samples that are above so many thresholds."""
    sums = tf.math.unsorted_segment_sum(values, place, points + 1)
    sums.set_shape([points + 1])
    return sums


def _area(positives: tf.Tensor, negatives: tf.Tensor, curve: str, method: str) -> tf.Tensor:
    """The formulas of tf.metrics.auc, on float32 counts of true and false positives and negatives."""
    def above(sums: tf.Tensor) -> Tuple[tf.Tensor, tf.Tensor]:
        is_above = tf.cumsum(sums, exclusive=True, reverse=True)[:-1]
        return tf.cast(is_above, tf.float32), tf.cast(tf.reduce_sum(sums) - is_above, tf.float32)

    (tp, fn), (fp, tn) = above(positives), above(negatives)
    if curve == "PR" and method == "careful_interpolation":
        return _interpolated(tp, fp, fn)
    recall = tf.math.divide(tp + _EPSILON, tp + fn + _EPSILON)
    if curve == "ROC":
        x, y = tf.math.divide(fp, fp + tn + _EPSILON), recall
    else:
        x, y = recall, tf.math.divide(tp + _EPSILON, tp + fp + _EPSILON)
    between = {"minoring": tf.minimum, "majoring": tf.maximum}.get(method, lambda a, b: (a + b) / 2.0)
    return tf.reduce_sum(tf.multiply(x[:-1] - x[1:], between(y[:-1], y[1:])))


def _interpolated(tp: tf.Tensor, fp: tf.Tensor, fn: tf.Tensor) -> tf.Tensor:
    """Precision and recall between thresholds: J. Davis and M. Goadrich, ICML 2006, section 4."""
    more = tp[:-1] - tp[1:]
    p = tp + fp
    slope = tf.div_no_nan(more, tf.maximum(p[:-1] - p[1:], 0))
    intercept = tp[1:] - tf.multiply(slope, p[1:])
    ratio = tf.where(tf.logical_and(p[:-1] > 0, p[1:] > 0), tf.div_no_nan(p[:-1], tf.maximum(p[1:], 0)),
                     tf.ones_like(p[1:]))
    return tf.reduce_sum(tf.div_no_nan(slope * (more + intercept * tf.math.log(ratio)), tf.maximum(tp[1:] + fn[1:], 0)))

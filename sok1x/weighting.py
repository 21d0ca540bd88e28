"""Rows combined by sample with weights."""
from typing import Optional

import tensorflow.compat.v1 as tf

from sok1x.graph_ops.bridge.tensorflow_versions import weighted_mean
from sok1x.graph_ops.operations import segments
from sok1x.sparse_ids import Bags


def weighted(rows: tf.Tensor, weights: Optional[tf.Tensor], bags: Bags, combiner: str) -> tf.Tensor:
    """The rows of each sample's ids, times their weights, added up.

    It is made of the rows that the lookup has read, so that gradients to the weights go with these, whatever has become
    of the table meanwhile; and of ops that have gradients of any order.

    Args:
        rows: floats [K, D], one for each id; or integers, which can be added up alone, without weights.
        weights: floats [K]; None: each is 1.
        bags: the ids.
        combiner: 'sum'; 'mean': divided by the sum of the sample's weights; 'sqrtn': by the root of the sum of their
            squares; what is divided by zero is as this TensorFlow has it: see `sok.lookup_sparse`.

    Returns:
        [B, D], of the dtype of `rows`, added up in float32, in float64 if they are of it, or as integers; zeros for a
        sample without ids.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> from sok1x import sparse_ids, weighting
        >>> sok.init()
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     bags = sparse_ids.bags_of("items", tf.ragged.constant([[7, 8], []]))
        ...     out = weighting.weighted(tf.ones([2, 3]), tf.constant([0.5, 2.0]), bags, "sum")
        ...     session.run(out).tolist()
        [[2.5, 2.5, 2.5], [0.0, 0.0, 0.0]]
    """
    samples, size = bags.indices[:, 0], bags.dense_shape[0]
    if rows.dtype.is_integer:
        with tf.device("/cpu:0"):  # for a GPU TensorFlow has no such sum
            sums = tf.math.unsorted_segment_sum(tf.cast(rows, tf.int64), samples, size, name="sum")
            return tf.cast(sums, rows.dtype)
    wide = tf.float64 if rows.dtype == tf.float64 else tf.float32
    sums, weights = tf.cast(rows, wide), None if weights is None else tf.cast(weights, wide)
    if weights is not None:
        sums *= weights[:, tf.newaxis]
    sums = segments.unsorted_segment_sum(sums, samples, size, name="weighted_sum")
    if combiner != "sum":
        sums = weighted_mean(sums, _divisors(tf.ones_like(samples, wide) if weights is None else weights, samples,
                                             size, combiner))
    return tf.cast(sums, rows.dtype)


def _divisors(weights: tf.Tensor, samples: tf.Tensor, size: tf.Tensor, combiner: str) -> tf.Tensor:
    """[B, 1]. A sample without ids has zeros; one whose weights add up to zero has zero here."""
    squares = combiner == "sqrtn"
    both = segments.unsorted_segment_sum(
        tf.stack([weights * weights if squares else weights, tf.ones_like(weights)], axis=1), samples, size,
        name="sum_of_weights")
    divisors = tf.where(both[:, 1:] > 0, both[:, :1], tf.ones_like(both[:, :1]))
    return tf.sqrt(divisors) if squares else divisors

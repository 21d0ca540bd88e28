"""Gradients that TensorFlow 2 puts together, of several lookups of one table, where rows leave tables or their cache.

Eagerly, and in functions that are called from there, a row stays as long as its number is there that a lookup or its
gradient has found. Of several gradients TensorFlow makes one with numbers of its own: these hold the rows then.
"""
from typing import Any, Callable

import tensorflow.compat.v1 as tf

from sok1x.core.frameworks import wrapping
from sok1x.graph_ops.bridge.tensorflow_versions import backprop_util, is_eager_outside
from sok1x.graph_ops.operations import pinned_rows


def watch() -> None:
    """From now on what is put together holds the rows of its parts.

    Example:
        >>> from sok1x.core.frameworks import aggregated_rows
        >>> aggregated_rows.watch()  # nothing, in TensorFlow 1.15
    """
    if backprop_util is not None:
        wrapping.wrap(backprop_util, "AggregateIndexedSlicesGradients", _holding)


def _holding(stock: Callable[..., Any]) -> Callable[..., Any]:
    def aggregate(grads: Any) -> Any:
        grads = list(grads)
        made = stock(grads)
        parts = [each.indices for each in grads if isinstance(each, tf.IndexedSlices)]
        if not is_eager_outside() or len(parts) < 2 or not isinstance(made, tf.IndexedSlices) or any(
                rows.dtype != tf.int32 for rows in [made.indices] + parts):
            return made
        return tf.IndexedSlices(made.values, pinned_rows.hold(made.indices, parts), made.dense_shape)

    return aggregate

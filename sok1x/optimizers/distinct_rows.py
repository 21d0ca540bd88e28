"""Steps on a table's rows that a lookup's gradient has made distinct already."""
from typing import Any

import tensorflow.compat.v1 as tf

from sok1x.core.embedding_variable import EmbeddingVariable
from sok1x.core.frameworks import wrapping
from sok1x.core.tables import growing_steps
from sok1x.graph_ops.bridge.tensorflow_versions import KerasOptimizer
from sok1x.graph_ops.operations import embedding, gradient_descent


class KnowsDistinctRows:
    """Mixed into an optimizer's class, before it."""

    def _resource_apply_sparse_duplicate_indices(self, grad: tf.Tensor, handle: Any, indices: tf.Tensor,
                                                 *state: Any, **kwargs: Any) -> tf.Operation:
        """As the optimizer's own; but a lookup's gradient has distinct indices, which TensorFlow need not make so.

        Making them distinct, tf.unique and a segment sum, is a quarter of a step's time with LazyAdam on a CPU.
        """
        own = super()._resource_apply_sparse_duplicate_indices  # type: ignore[misc]
        if own.__func__ is _GRADIENT_DESCENT and isinstance(handle, EmbeddingVariable):
            rate = self._learning_rate_tensor  # type: ignore[attr-defined]
            if rate.shape.rank in (0, None):
                # The same arithmetic in one pass over all threads, where TensorFlow makes three, the last on one; and
                # rows that the shard does not have are refused on a GPU too.
                return gradient_descent.gradient_descent(handle.table_variables, grad, indices, rate)
        if wrapping.stock_of(own.__func__) in _MAKE_DISTINCT and embedding.are_distinct(indices, handle):
            with growing_steps.gradient_first(handle, grad, indices):
                return self._resource_apply_sparse(  # type: ignore[attr-defined]
                    grad, handle, indices, *state, **kwargs)
        return own(grad, handle, indices, *state, **kwargs)  # state: of tf.contrib.optimizer_v2, for one call


# TensorFlow's own way for optimizers that do not say how they treat repeated indices.
_MAKE_DISTINCT = [wrapping.stock_of(kind._resource_apply_sparse_duplicate_indices)
                  for kind in (tf.train.Optimizer, KerasOptimizer)]
_GRADIENT_DESCENT = tf.train.GradientDescentOptimizer._resource_apply_sparse_duplicate_indices

"""tf.keras' Adam, with one kernel for an embedding variable's step."""
from typing import Any

import tensorflow.compat.v1 as tf

from sok1x.core.embedding_variable import EmbeddingVariable
from sok1x.graph_ops.operations import adam, embedding, segments


class Adam(tf.keras.optimizers.Adam):
    """`tf.keras.optimizers.Adam`, faster for embedding variables; other variables take TensorFlow's own steps.

    For the gradient of a lookup, which touches some of a shard's rows, TensorFlow decays m and v of all rows, adds
    the gradient to some, and moves all rows, in ten passes over memory. Here it is one pass, in the same arithmetic:
    gradient, row, m and v are read once, row, m and v written once. Still it takes memory traffic of 24 V D bytes a
    step, however small the batch: `LazyAdamOptimizer` touches only the batch's rows.

    Of any variable, a sparse gradient's equal indices are added up by `sok1x.operations`, and so run after
    `sok1x.Init`. Slots have TensorFlow's names, `m` and `v`, and belong to the rank that has the rows, as the rows do.
    Dense gradients and `amsgrad=True` take TensorFlow's own way.

    Args:
        learning_rate: a number, a scalar float32 tensor of shape [], a schedule, or a callable.
        beta_1, beta_2: decay of the gradients' mean and of their squares' mean, likewise.
        epsilon: added to the root of v; a number.
        amsgrad: whether to divide by the largest v so far.
        name: prefix of the slots' names.
        **kwargs: `clipnorm`, `clipvalue`, `lr`, `decay`.

    Raises:
        ValueError: a hyperparameter is negative.
        TypeError: an unknown keyword.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     layer = sok.All2AllDenseEmbedding(
        ...         max_vocabulary_size_per_gpu=8, embedding_vec_size=4, slot_num=1, nnz_per_slot=1,
        ...         embedding_initializer="ones")
        ...     loss = tf.reduce_sum(layer(tf.constant([[[7]], [[7]]], tf.int64)))
        ...     optimizer = sok.tf.keras.optimizers.Adam(0.5)
        ...     step = optimizer.get_updates(loss, [layer.embedding_variable])
        ...     _ = session.run(sok.Init(global_batch_size=2))
        ...     _ = session.run(tf.global_variables_initializer())
        ...     _ = session.run(step)
        ...     rows = session.run(layer.embedding_variable)
        >>> rows[0].round(3).tolist()
        [0.5, 0.5, 0.5, 0.5]
    """

    def _resource_apply_sparse_duplicate_indices(self, grad: tf.Tensor, handle: Any, indices: tf.Tensor,
                                                 **kwargs: Any) -> tf.Operation:
        # For an embedding variable the step itself adds up what has equal indices.
        if self._is_tensorflows(handle) and not embedding.are_distinct(indices, handle):
            if not segments.can_sum(grad, indices):
                return super()._resource_apply_sparse_duplicate_indices(grad, handle, indices, **kwargs)
            grad, indices = segments.sums_by_index(grad, indices)
        return self._resource_apply_sparse(grad, handle, indices, **kwargs)

    def _resource_apply_sparse(self, grad: tf.Tensor, var: Any, indices: tf.Tensor,
                               apply_state: Any = None) -> tf.Operation:
        if self._is_tensorflows(var):
            return super()._resource_apply_sparse(grad, var, indices, apply_state=apply_state)
        place = var.device, var.dtype.base_dtype
        known = (apply_state or {}).get(place) or self._fallback_apply_state(*place)
        # `lr` is corrected for the moments' start at zero already.
        return adam.step(var.table_variables, [self.get_slot(var, name).handle for name in ("m", "v")], grad,
                         indices, known["lr"], known["beta_1_t"], known["beta_2_t"], known["epsilon"])

    def _is_tensorflows(self, var: Any) -> bool:
        """Whether TensorFlow's own ops take the step."""
        return bool(self.amsgrad) or not isinstance(var, EmbeddingVariable)

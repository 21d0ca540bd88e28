"""LazyAdam, with one kernel for an embedding variable's step."""
from typing import Any

import tensorflow.compat.v1 as tf

from sok1x.core.embedding_variable import EmbeddingVariable
from sok1x.graph_ops.bridge.tensorflow_versions import resource_variable_ops
from sok1x.graph_ops.operations import adam, segments


class LazyAdamOptimizer(tf.train.AdamOptimizer):
    """Adam that, for a sparse gradient, touches only the rows in the batch: `tf.contrib.opt.LazyAdamOptimizer`.

    Rows of which there is no gradient keep their value, m and v; `tf.train.AdamOptimizer` decays and moves all rows
    at every step. For an embedding variable the step is one kernel that reads gradient, row, m and v once and writes
    row, m and v once, in the same arithmetic. Other variables' sparse gradients take TensorFlow's ops, dense
    gradients `tf.train.AdamOptimizer`'s.

    Of any variable, a sparse gradient's equal indices are added up by `sok1x.operations`, and so run after
    `sok1x.Init`. Slots have TensorFlow's names, `m` and `v`, and belong to the rank that has the rows, as the rows do.

    Args:
        learning_rate: a number, a scalar float32 tensor of shape [], or a callable.
        beta1, beta2: decay of the gradients' mean and of their squares' mean, likewise.
        epsilon: added to the root of v, likewise.
        use_locking: whether updates of variables that are no resources lock them.
        name: of the update op, and prefix of the slots' names.

    Raises:
        ValueError: as for `tf.train.AdamOptimizer`, for instance a loss without gradients.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     layer = sok.All2AllDenseEmbedding(
        ...         max_vocabulary_size_per_gpu=8, embedding_vec_size=4, slot_num=1, nnz_per_slot=1,
        ...         embedding_initializer="ones")
        ...     loss = tf.reduce_sum(layer(tf.constant([[[7]], [[7]]], tf.int64)))
        ...     step = sok.tf.keras.optimizers.LazyAdamOptimizer(0.5).minimize(loss)
        ...     _ = session.run(sok.Init(global_batch_size=2))
        ...     _ = session.run(tf.global_variables_initializer())
        ...     session.run(step)
        ...     rows = session.run(layer.embedding_variable)
        >>> rows[0].round(3).tolist()
        [0.5, 0.5, 0.5, 0.5]
    """

    def _resource_apply_sparse_duplicate_indices(self, grad: tf.Tensor, handle: Any,
                                                 indices: tf.Tensor) -> tf.Operation:
        if not isinstance(handle, EmbeddingVariable):  # whose step itself adds up what has equal indices
            if not segments.can_sum(grad, indices):
                return super()._resource_apply_sparse_duplicate_indices(grad, handle, indices)
            grad, indices = segments.sums_by_index(grad, indices)
        return self._resource_apply_sparse(grad, handle, indices)

    def _resource_apply_sparse(self, grad: tf.Tensor, handle: Any, indices: tf.Tensor) -> tf.Operation:
        if isinstance(handle, EmbeddingVariable):
            return adam.step(handle.table_variables, [self.get_slot(handle, name).handle for name in ("m", "v")],
                             grad, indices, self._lr_t, self._beta1_t, self._beta2_t, self._epsilon_t,
                             powers=self._get_beta_accumulators(), lazy=True, name="lazy_adam")
        row, m, v = self._moved(grad, handle, indices)
        update, subtract = resource_variable_ops.resource_scatter_update, resource_variable_ops.resource_scatter_sub
        return tf.group(subtract(handle.handle, indices, row), update(self.get_slot(handle, "m").handle, indices, m),
                        update(self.get_slot(handle, "v").handle, indices, v))

    def _apply_sparse_duplicate_indices(self, grad: tf.IndexedSlices, var: Any) -> tf.Operation:
        if not segments.can_sum(grad.values, grad.indices):
            return super()._apply_sparse_duplicate_indices(grad, var)
        return self._apply_sparse(tf.IndexedSlices(*segments.sums_by_index(grad.values, grad.indices)), var)

    def _apply_sparse(self, grad: tf.IndexedSlices, var: Any) -> tf.Operation:
        row, m, v = self._moved(grad.values, var, grad.indices)
        locking = self._use_locking
        return tf.group(tf.scatter_sub(var, grad.indices, row, use_locking=locking),
                        tf.scatter_update(self.get_slot(var, "m"), grad.indices, m, use_locking=locking),
                        tf.scatter_update(self.get_slot(var, "v"), grad.indices, v, use_locking=locking))

    def _moved(self, grad: tf.Tensor, var: Any, indices: tf.Tensor) -> Any:
        """What to subtract from the rows, and their new moments, with the operations in TensorFlow's order."""
        rate, beta1, beta2, epsilon, power1, power2 = (tf.cast(scalar, var.dtype.base_dtype) for scalar in (
            self._lr_t, self._beta1_t, self._beta2_t, self._epsilon_t, *self._get_beta_accumulators()))
        m = beta1 * tf.gather(self.get_slot(var, "m"), indices) + (1 - beta1) * grad
        v = beta2 * tf.gather(self.get_slot(var, "v"), indices) + (1 - beta2) * tf.square(grad)
        return rate * tf.sqrt(1 - power2) / (1 - power1) * m / (tf.sqrt(v) + epsilon), m, v

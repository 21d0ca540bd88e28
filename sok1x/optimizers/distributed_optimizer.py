"""Any optimizer, with dense gradients averaged over the ranks."""
from typing import Any, Dict, Tuple

import tensorflow.compat.v1 as tf

from sok1x.core.embedding_variable import EmbeddingVariable
from sok1x.graph_ops import embedding, update
from sok1x.optimizers import gradients


def DistributedOptimizer(optimizer: Any, average: bool = True) -> Any:
    """The same optimizer, averaging dense variables' gradients over all ranks before it applies them.

    Gradients of embedding variables are summed over the ranks by the layers and complete on the rank that owns the
    rows: they are left alone, and applied without making their indices distinct once more. Dense ones travel over
    Horovod where it is imported and initialized when the gradients are built, else over sok1x's own communicator.
    tf.train's optimizers average in `compute_gradients`, so clipping after it sees averages, and `apply_gradients`
    averages what did not come that way, for instance from `tf.gradients`; tf.keras' optimizers average in
    `apply_gradients`.

    Args:
        optimizer: of tf.train, tf.contrib.opt or tf.keras.optimizers.
        average: True averages; False sums, which is the gradient of the whole batch where the loss already divides
            by the global batch.

    Returns:
        An optimizer of a subclass of the given one's class. The two share their state: slots, hyperparameters and
        configuration are the same.

    Raises:
        TypeError: optimizer is none.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     weights = tf.get_variable("weights", initializer=[1.0, 2.0])
        ...     optimizer = sok.DistributedOptimizer(tf.train.GradientDescentOptimizer(0.5))
        ...     step = optimizer.minimize(tf.reduce_sum(weights))
        ...     _ = session.run(sok.Init(global_batch_size=1))
        ...     _ = session.run(tf.global_variables_initializer())
        ...     _ = session.run(step)
        ...     session.run(weights).tolist()
        [0.5, 1.5]
    """
    base = type(optimizer)
    if isinstance(optimizer, _Distributed):
        raise TypeError("DistributedOptimizer: got an optimizer that it has made already, expected a plain one")
    if isinstance(optimizer, tf.train.Optimizer):
        mixin: type = _DistributedTrain
    elif isinstance(optimizer, tf.keras.optimizers.Optimizer):
        mixin = _DistributedKeras
    else:
        raise TypeError("DistributedOptimizer: got {!r} of type {}, expected an optimizer of tf.train or "
                        "tf.keras.optimizers".format(optimizer, base.__name__))
    key = (mixin, base)
    if key not in _classes:
        # The class keeps its name: Keras writes it into configurations and looks it up when it reads them.
        _classes[key] = type(base.__name__, (mixin, base), {"__module__": base.__module__, "__doc__": base.__doc__})
    made: Any = object.__new__(_classes[key])
    object.__setattr__(optimizer, "_sok1x_average", bool(average))
    object.__setattr__(made, "__dict__", optimizer.__dict__)
    return made


_classes: Dict[Tuple[type, type], type] = {}


class _Distributed:
    """What the made classes have in common; they derive from this and from the optimizer's own class."""

    _sok1x_average: bool

    def apply_gradients(self, grads_and_vars: Any, *args: Any, **kwargs: Any) -> Any:
        """As the optimizer's own, with what is not averaged yet averaged."""
        return super().apply_gradients(  # type: ignore[misc]
            gradients.average(grads_and_vars, self._sok1x_average), *args, **kwargs)

    def _resource_apply_sparse_duplicate_indices(self, grad: tf.Tensor, handle: Any, indices: tf.Tensor,
                                                 **kwargs: Any) -> tf.Operation:
        """As the optimizer's own; but a lookup's gradient has distinct indices, which TensorFlow need not make so.

        Making them distinct, tf.unique and a segment sum, is a quarter of a step's time with LazyAdam on a CPU.
        """
        own = super()._resource_apply_sparse_duplicate_indices  # type: ignore[misc]
        if own.__func__ is _GRADIENT_DESCENT and isinstance(handle, EmbeddingVariable):
            rate = self._learning_rate_tensor  # type: ignore[attr-defined]
            if rate.shape.rank in (0, None):
                # The same arithmetic in one pass over all threads, where TensorFlow makes three, the last on one; and
                # rows that the shard does not have are refused on a GPU too.
                return update.gradient_descent(handle.table, grad, indices, rate)
        if own.__func__ in _MAKE_DISTINCT and embedding.are_distinct(indices, handle):
            return self._resource_apply_sparse(grad, handle, indices, **kwargs)  # type: ignore[attr-defined]
        return own(grad, handle, indices, **kwargs)


# TensorFlow's own way for optimizers that do not say how they treat repeated indices.
_MAKE_DISTINCT = (tf.train.Optimizer._resource_apply_sparse_duplicate_indices,
                  tf.keras.optimizers.Optimizer._resource_apply_sparse_duplicate_indices)
_GRADIENT_DESCENT = tf.train.GradientDescentOptimizer._resource_apply_sparse_duplicate_indices


class _DistributedTrain(_Distributed):
    def compute_gradients(self, *args: Any, **kwargs: Any) -> Any:
        """As the optimizer's own, averaged."""
        return gradients.average(super().compute_gradients(*args, **kwargs),  # type: ignore[misc]
                                 self._sok1x_average)


class _DistributedKeras(_Distributed):
    pass

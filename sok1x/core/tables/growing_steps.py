"""Steps of TensorFlow's optimizers on tables that grow: with the gradient, and not before it.

A lookup may give a table more rows, and the optimizer's step follows it, but for what does not depend on the gradient:
TensorFlow could read a slot, as `m * beta1`, before the lookup, and assign what it has made of it after. So `watch` has
optimizers wait for the gradient with all they do (`gradient_first`), and has those that must know how many rows there
are say so.
"""
import contextlib
from typing import Any, Callable, Iterator

import tensorflow.compat.v1 as tf

from sok1x.core.eagerly import eager, eager_slots
from sok1x.core.frameworks import wrapping
from sok1x.core.tables import growing_shape, slot_beginnings
from sok1x.graph_ops.bridge.tensorflow_versions import V2, KerasOptimizer, slot_creator


@contextlib.contextmanager
def gradient_first(variable: Any, *gradient: tf.Tensor) -> Iterator[None]:
    """Inside, ops follow a variable's gradient, if it is a table that grows.

    Args:
        variable: any variable.
        *gradient: tensors.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> from sok1x.core.tables import growing_steps
        >>> with tf.Graph().as_default():
        ...     shard, gradient = sok.EmbeddingVariable(rows=None, dim=4), tf.constant(1.0)
        ...     with growing_steps.gradient_first(shard, gradient):
        ...         after = tf.no_op()
        >>> after.control_inputs == [gradient.op]
        True
    """
    with tf.control_dependencies(list(gradient) if growing_shape.grows(variable) else []):
        yield


def watch() -> None:
    """From now on TensorFlow's optimizers step on tables that grow when the gradient is there, and not before.

    Example:
        >>> from sok1x.core.tables import growing_steps
        >>> growing_steps.watch()
    """
    for kind in (tf.train.Optimizer, KerasOptimizer):
        wrapping.wrap(kind, "_resource_apply_sparse_duplicate_indices", _waiting)
    if V2:
        wrapping.wrap(slot_creator, "create_slot_with_initializer", _of_known_shape)
        # It makes constants of the table's shape before it makes slots.
        wrapping.wrap(tf.train.AdagradDAOptimizer, "_create_slots", _of_known_shapes)
        wrapping.wrap(tf.train.Optimizer, "_create_or_restore_slot_variable", eager_slots.restore_slot)
        wrapping.wrap(tf.train.Optimizer, "_restore_slot_variable", eager_slots.restore_made_slot)


def _of_known_shape(stock: Callable[..., Any]) -> Callable[..., Any]:
    """TensorFlow 2 keeps no `GrowingRows` in a shape, and would not say what to do."""
    def create_slot_with_initializer(primary: Any, initializer: Any, shape: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return stock(primary, initializer, shape, *args, **kwargs)
        except slot_beginnings.SlotError:
            raise
        except ValueError:
            if not tf.TensorShape(shape).is_fully_defined() and not eager.is_on():  # eagerly it is never the shape
                growing_shape.refuse_if_growing(primary)
            raise

    return create_slot_with_initializer


def _of_known_shapes(stock: Callable[..., Any]) -> Callable[..., Any]:
    def create_slots(self: Any, var_list: Any) -> Any:
        for variable in () if growing_shape.are_shapes_known() else var_list:
            growing_shape.refuse_if_growing(variable)
        return stock(self, var_list)

    return create_slots


def _waiting(stock: Callable[..., Any]) -> Callable[..., Any]:
    def apply(self: Any, grad: tf.Tensor, handle: Any, indices: tf.Tensor, **kwargs: Any) -> Any:
        with gradient_first(handle, grad, indices):
            return stock(self, grad, handle, indices, **kwargs)

    return apply

"""Keras' newer optimizers (TensorFlow 2) on tables: what belongs to a rank, and steps in graphs.

They make a variable's slots by `add_variable_from_reference`, without colocating them with it, by which slots.py and
growing_slots.py would know them. And they are made for eager execution and tf.function: in a plain tf.Graph nothing
would order what a step assigns, and the op that they return would not run it.
"""
import contextlib
from typing import Any, Callable, Iterator, List

import tensorflow.compat.v1 as tf

from sok1x.core import eager, growing_slots, slots
from sok1x.core.shard_variable import ShardVariable
from sok1x.graph_ops.bridge import tensorflow_versions
from sok1x.graph_ops.bridge.tensorflow_versions import NewKerasOptimizer, tf_ops


def watch() -> None:
    """From now on these optimizers' slots of tables belong to the rank, and their steps in graphs are whole.

    Example:
        >>> from sok1x.core import newer_optimizers
        >>> newer_optimizers.watch()  # nothing, in TensorFlow 1.15
    """
    if NewKerasOptimizer is None or hasattr(NewKerasOptimizer.add_variable_from_reference, "stock"):
        return
    NewKerasOptimizer.add_variable_from_reference = _slots_made(NewKerasOptimizer.add_variable_from_reference)
    NewKerasOptimizer.apply_gradients = _whole_steps(NewKerasOptimizer.apply_gradients)
    tensorflow_versions.KerasOptimizer.add_slot = _eager_slots(tensorflow_versions.KerasOptimizer.add_slot)
    slot_creator = tensorflow_versions.slot_creator
    for name in ("create_slot", "create_slot_with_initializer"):
        setattr(slot_creator, name, _eager_slots(getattr(slot_creator, name)))


def _slots_made(stock: Callable[..., Any]) -> Callable[..., Any]:
    def add_variable_from_reference(self: Any, model_variable: Any, *args: Any, **kwargs: Any) -> Any:
        if not hasattr(model_variable, "table"):
            return stock(self, model_variable, *args, **kwargs)
        with _beside(model_variable):
            return _owned(stock(self, model_variable, *args, **kwargs), model_variable)

    add_variable_from_reference.stock = stock  # type: ignore[attr-defined]
    return add_variable_from_reference


def _owned(made: Any, shard: Any) -> Any:
    """A slot of a shard, which is a rank's own; but not a number that is equal on all ranks."""
    # In a tf.function a variable is first of a class that has no initial value yet.
    if isinstance(made, tensorflow_versions.Variable) and hasattr(made, "_handle") and made.shape.rank \
            and not isinstance(made, ShardVariable):
        made.__class__ = ShardVariable  # the same state, with the other class's `assign`
        if not made._in_graph_mode:
            setattr(made, slots.OWNER, shard)
            eager.add(made)
    return made


def _eager_slots(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Of the other optimizers, whose slots slots.py knows in graphs, by colocation."""
    def make_slot(*args: Any, **kwargs: Any) -> Any:
        made = stock(*args, **kwargs)
        primary = args[1] if isinstance(args[0], tensorflow_versions.KerasOptimizer) else args[0]
        return _owned(made, primary) if eager.is_on() and hasattr(primary, "table") else made

    make_slot.stock = stock  # type: ignore[attr-defined]
    return make_slot


@contextlib.contextmanager
def _beside(shard: Any) -> Iterator[None]:
    """Where a slot of a shard is made."""
    with contextlib.ExitStack() as stack:
        if shard.table.grows:
            stack.enter_context(growing_slots.shapes_known())
        if not tf.executing_eagerly():
            stack.enter_context(tf_ops.colocate_with(shard.handle))
        yield


def _whole_steps(stock: Callable[..., Any]) -> Callable[..., Any]:
    def apply_gradients(self: Any, grads_and_vars: Any, *args: Any, **kwargs: Any) -> Any:
        pairs = list(grads_and_vars)
        if tf.executing_eagerly() or tf.get_default_graph().building_function or not any(
                hasattr(variable, "table") for _, variable in pairs):
            return stock(self, pairs, *args, **kwargs)
        # Variables are made before, so that nothing of their initializers is taken for a part of the step.
        self.build([variable for _, variable in pairs])
        with tensorflow_versions.automatic_control_dependencies() as ordered, \
                tf.control_dependencies(_of_growing(pairs)):
            step = tf.convert_to_tensor(stock(self, pairs, *args, **kwargs))
            return ordered.mark_as_return(step).op

    apply_gradients.stock = stock  # type: ignore[attr-defined]
    return apply_gradients


def _of_growing(pairs: List[Any]) -> List[tf.Tensor]:
    """The gradients of tables that grow, before which nothing may be done to their slots."""
    return [gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient for gradient, variable in pairs
            if gradient is not None and hasattr(variable, "table") and variable.table.grows]

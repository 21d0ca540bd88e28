"""Keras' newer optimizers (TensorFlow 2) on tables: what belongs to a rank, and steps in graphs.

They make a variable's slots by `add_variable_from_reference`, without colocating them with it, by which slots.py and
growing_slots.py would know them. And they are made for eager execution and tf.function: in a plain tf.Graph nothing
would order what a step assigns, and the op that they return would not run it.
"""
import contextlib
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional

import tensorflow.compat.v1 as tf

from sok1x.core.eagerly import eager, eager_clipping, eager_slots
from sok1x.core.frameworks import keras_loss_scaling, slots, unfit_newer_optimizers, wrapping
from sok1x.core.graph_keys import GraphKeys
from sok1x.core.tables import growing_shape, growing_slots
from sok1x.core.tables.shard_variable import ShardVariable
from sok1x.graph_ops.bridge import tensorflow_versions
from sok1x.graph_ops.bridge.tensorflow_versions import NewKerasOptimizer, tf_ops

_SLOT = "_sok1x_slot"  # of a slot: its name


def watch() -> None:
    """From now on these optimizers' slots of tables belong to the rank, and their steps in graphs are whole.

    Example:
        >>> from sok1x.core.frameworks import newer_optimizers
        >>> newer_optimizers.watch()  # nothing, in TensorFlow 1.15
    """
    if NewKerasOptimizer is None:
        return
    keras_loss_scaling.watch()
    eager_clipping.watch()
    older, slot_creator = tensorflow_versions.KerasOptimizer, tensorflow_versions.slot_creator
    for owner, name, around in (
            (NewKerasOptimizer, "add_variable_from_reference", _slots_made),
            (NewKerasOptimizer, "apply_gradients", _whole_steps),
            (NewKerasOptimizer, "set_weights", _of_any_rows),
            (tensorflow_versions.keras_optimizers, "convert_to_legacy_optimizer", _still_distributed),
            (tf.train.Optimizer, "apply_gradients", _slots_first),
            (tf.train.ProximalAdagradOptimizer, "_create_slots", _of_known_shape),
            (older, "apply_gradients", _clips_checked),
            (older, "add_slot", _eager_slots),
            (older, "_create_or_restore_slot_variable", _restored_later),
            (slot_creator, "create_slot", _eager_slots),
            (slot_creator, "create_slot_with_initializer", _eager_slots)):
        wrapping.wrap(owner, name, around)
    for kind in _with_subclasses(NewKerasOptimizer):
        if "build" in vars(kind):
            wrapping.wrap(kind, "build", _of_known_shapes)


def _with_subclasses(kind: Any) -> Iterator[Any]:
    yield kind
    for derived in kind.__subclasses__():
        yield from _with_subclasses(derived)


def _of_known_shapes(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Of what makes slots, also before the first step: some, as Adagrad, make constants of a variable's shape."""
    def build(self: Any, var_list: Any) -> Any:
        variables = list(var_list)
        if not any(growing_shape.grows(variable) for variable in variables):
            return stock(self, variables)
        with growing_shape.shapes_known():
            return stock(self, variables)

    return build


def _slots_made(stock: Callable[..., Any]) -> Callable[..., Any]:
    def add_variable_from_reference(self: Any, model_variable: Any, *args: Any, **kwargs: Any) -> Any:
        if not hasattr(model_variable, "table"):
            return stock(self, model_variable, *args, **kwargs)
        slot = args[0] if args else kwargs["variable_name"]
        unfit_newer_optimizers.check(self, model_variable, slot)
        with eager_slots.made_for(model_variable) if eager.is_on() else _beside(model_variable):
            made = _owned(stock(self, model_variable, *args, **kwargs), model_variable, "{}/{}/{}".format(
                self.name or "optimizer", slot, model_variable.table.name))
        setattr(made, _SLOT, slot)
        return made

    return add_variable_from_reference


def is_one(optimizer: Any) -> bool:
    """Whether an optimizer is one of these, which have no `get_slot`: `slots_of` has."""
    return NewKerasOptimizer is not None and isinstance(optimizer, NewKerasOptimizer)


def slots_of(optimizer: Any, variable: Any = None) -> Dict[str, Any]:
    """What one of these optimizers keeps: {slot's name: variable}; of one table, or of any."""
    found = {}
    for made in optimizer.variables:
        owner = getattr(made, slots.OWNER, None)
        if owner is not None and (variable is None or owner is variable):
            found[getattr(made, _SLOT)] = made
    return found


def _owned(made: Any, shard: Any, name: Optional[str] = None) -> Any:
    """A slot of a shard, which is a rank's own; but not a number that is equal on all ranks.

    name: what an eager one is saved as: TensorFlow's own name of it has the scopes that it was made in, of `fit` others
    than of `build`.
    """
    # In a tf.function a variable is first of a class that has no initial value yet.
    if isinstance(made, tensorflow_versions.Variable) and hasattr(made, "_handle") and made.shape.rank \
            and not isinstance(made, ShardVariable):
        made.__class__ = ShardVariable  # the same state, with the other class's `assign`
        setattr(made, slots.OWNER, shard)
        if not made._in_graph_mode:
            eager.named(made, growing_slots.name_of(made) or eager.unique_name(
                name or made.name.partition(":")[0]), scoped=name)
            eager.add(made)
            growing_slots.fit(made, shard)  # a tf.train.Checkpoint may have restored it when it was made
            eager_slots.begin_anew(made, shard)
    return made


def _of_any_rows(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Keras would compare the shape of a slot, in which the rows of a table that grows are unknown."""
    def set_weights(self: Any, weights: Any) -> Any:
        growing = {index for index, made in enumerate(self.variables) if growing_slots.slot_of(made) is not None}
        if not growing or len(weights) != len(self.variables):
            return stock(self, weights)
        for made, value in zip(self.variables, weights):
            made.shape.assert_is_compatible_with(value.shape)
        for made, value in zip(self.variables, weights):
            made.assign(value)
        return None

    return set_weights


def _eager_slots(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Of the other optimizers, whose slots slots.py knows in graphs, by colocation."""
    def make_slot(*args: Any, **kwargs: Any) -> Any:
        # What restores a slot before the first step gives the variable by its name.
        primary = kwargs["var"] if "var" in kwargs else args[
            1 if isinstance(args[0], tensorflow_versions.KerasOptimizer) else 0]
        if not hasattr(primary, "table") or not eager.is_on():
            return stock(*args, **kwargs)
        # What is given for the shape of a table that grows is of one row there.
        args = tuple(tf.TensorShape([1] + one.as_list()[1:]) if isinstance(one, tf.TensorShape) and one.rank
                     and one.as_list()[0] is None else one for one in args)
        name = None
        if isinstance(args[0], tensorflow_versions.KerasOptimizer):
            name = "{}/{}/{}".format(args[0]._name, primary.table.name, kwargs["slot_name"] if "slot_name" in kwargs
                                     else args[2 if "var" not in kwargs else 1])
        with eager_slots.made_for(primary):
            return _owned(stock(*args, **kwargs), primary, name)

    return make_slot


def _restored_later(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Of a tf.train.Checkpoint, which else makes slots that begin with what was saved: new rows begin with a number."""
    def create_or_restore(self: Any, slot_variable_position: Any, slot_name: str, variable: Any) -> Any:
        later = growing_shape.grows(variable) and tf.executing_eagerly()
        with eager_slots.restored_later(later), _of_no_strategy(self) if later else contextlib.nullcontext():
            return stock(self, slot_variable_position=slot_variable_position, slot_name=slot_name, variable=variable)

    return create_or_restore


@contextlib.contextmanager
def _of_no_strategy(optimizer: Any) -> Iterator[None]:
    """One that was made in a tf.distribute scope makes slots in scopes of creators, too."""
    strategy, optimizer._distribution_strategy = optimizer._distribution_strategy, None
    try:
        yield
    finally:
        optimizer._distribution_strategy = strategy


def _clips_checked(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Of the older kind, which clips there."""
    def apply_gradients(self: Any, grads_and_vars: Any, *args: Any, **kwargs: Any) -> Any:
        pairs = list(grads_and_vars)
        eager_clipping.check_optimizer(self, pairs)
        return stock(self, pairs, *args, **kwargs)

    return apply_gradients


def _slots_first(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Of tf.train's optimizers, as `_build_for_growing`."""
    def apply_gradients(self: Any, grads_and_vars: Any, *args: Any, **kwargs: Any) -> Any:
        pairs = list(grads_and_vars)
        growing = [variable for gradient, variable in pairs if gradient is not None and growing_shape.grows(variable)]
        if growing and eager.is_on():
            with growing_shape.shapes_known(), tf.init_scope():
                self._create_slots(growing)
        return stock(self, pairs, *args, **kwargs)
    return apply_gradients


def _of_known_shape(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Of one that asks for a variable's shape at each step, to make a slot's first value."""
    def create_slots(self: Any, variables: Any) -> Any:
        if not eager.is_on():
            for variable in () if growing_shape.are_shapes_known() else variables:
                growing_shape.refuse_if_growing(variable)
            return stock(self, variables)
        with growing_shape.shapes_known():
            return stock(self, variables)

    return create_slots


@contextlib.contextmanager
def _beside(shard: Any) -> Iterator[None]:
    """Where a slot of a shard is made."""
    with contextlib.ExitStack() as stack:
        if shard.table.grows:
            stack.enter_context(growing_shape.shapes_known())
        if not tf.executing_eagerly():
            stack.enter_context(tf_ops.colocate_with(shard.handle))
        yield


def _whole_steps(stock: Callable[..., Any]) -> Callable[..., Any]:
    def apply_gradients(self: Any, grads_and_vars: Any, *args: Any, **kwargs: Any) -> Any:
        pairs = list(grads_and_vars)
        eager_clipping.check_optimizer(self, pairs)
        if eager.is_on():
            _build_for_growing(self, [variable for _, variable in pairs])
        given = [variable for gradient, variable in pairs if gradient is not None]
        ours = tensorflow_versions.in_plain_graph() and given and (
            hasattr(self, "_sok1x_averages") or tf.get_collection(GraphKeys.GLOBAL_EMBEDDING_VARIABLES))
        if ours or any(hasattr(variable, "table") for variable in given):
            # Which Keras sets where there is a GPU. XLA compiles no table that changes, and of a plain graph nothing
            # would run what it has compiled.
            self.jit_compile = False
        if not ours:
            with tf.control_dependencies([] if tf.executing_eagerly() else _of_growing(pairs)):
                return stock(self, pairs, *args, **kwargs)
        # Variables are made before, so that nothing of their initializers is taken for a part of the step.
        with growing_shape.shapes_known():
            self.build([variable for _, variable in pairs])
        # A lookup gives new keys rows with their first values; and weight decay assigns variables that the forward pass
        # reads, in whatever order.
        with tensorflow_versions.automatic_control_dependencies() as ordered, \
                tf.control_dependencies(_all_of(gradient for gradient, _ in pairs)):
            step = tf.convert_to_tensor(stock(self, pairs, *args, **kwargs))
            return ordered.mark_as_return(step).op

    return apply_gradients


def _build_for_growing(optimizer: Any, variables: List[Any]) -> None:
    """Makes the slots while tables that grow say that they have one row: optimizers ask before they make any."""
    if any(growing_shape.grows(variable) for variable in variables):
        with growing_shape.shapes_known(), tf.init_scope(), tf.name_scope(optimizer.name or "optimizer"):
            optimizer.build(variables)


def _still_distributed(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Where TensorFlow 2's behavior is off, Keras' compile makes an optimizer of the older kind of a newer one."""
    def convert_to_legacy_optimizer(optimizer: Any) -> Any:
        made = stock(optimizer)
        if not hasattr(optimizer, "_sok1x_averages"):
            return made
        from sok1x.optimizers.distributed_optimizer import DistributedOptimizer  # which needs this module
        return DistributedOptimizer(made, optimizer._sok1x_average, optimizer._sok1x_clip_norm)

    return convert_to_legacy_optimizer


def _of_growing(pairs: List[Any]) -> List[tf.Tensor]:
    """The gradients of tables that grow or forget, before which nothing may be done to their slots.

    What a step reads of a slot before the lookup, which may give it more rows, or rows to other keys, is outdated.
    """
    return _all_of(gradient for gradient, variable in pairs if growing_shape.grows(variable))


def _all_of(gradients: Iterable[Any]) -> List[tf.Tensor]:
    """Their tensors."""
    parts = [(gradient.values, gradient.indices) if isinstance(gradient, tf.IndexedSlices) else (gradient,)
             for gradient in gradients if gradient is not None]
    return [tensor for tensors in parts for tensor in tensors]

"""Slots of tables that grow: they begin with as many rows as the table has by then, and grow with it.

An optimizer says what its slots begin with by a tensor, or something that makes one, of the rows' shape; of a table
that grows nobody knows that when the graph is built (growing_shape.py). All rows of a slot begin with one number,
whatever the optimizer (TensorFlow's begin with 0, 0.1 or 1): it is read off what the optimizer says, and an op of ours
makes the initial value of it. Growth gives the same number to new rows.
"""
from typing import Any, Callable, Dict, Iterable, Optional, Tuple

import tensorflow.compat.v1 as tf

from sok1x.core.options import cached_wholes
from sok1x.core.tables import growing_shape, slot_beginnings
from sok1x.graph_ops.bridge.tensorflow_versions import ResourceVariable
from sok1x.graph_ops.stores import initial, known_slots, slot_values

_GROWS_WITH = "_sok1x_grows_with"  # the attribute of a slot that has its table, and what is known of it


def table_of(variable: Any) -> Optional[str]:
    """The name of the table that grows whose slot a variable is.

    Args:
        variable: any variable.

    Returns:
        A str, or None for any other variable.

    Example:
        >>> import tensorflow as tf
        >>> from sok1x.core.tables import growing_slots
        >>> with tf.Graph().as_default():
        ...     growing_slots.table_of(tf.get_variable("weights", [4], use_resource=True)) is None
        True
    """
    found = getattr(variable, _GROWS_WITH, None)
    return None if found is None else str(found[0].name)


def name_of(variable: Any) -> Optional[str]:
    """The name by which growth knows a slot of a table that grows; None of any other variable."""
    found = getattr(variable, _GROWS_WITH, None)
    return None if found is None else str(found[1].name)


def table_with(variable: Any) -> Any:
    """The description of the table that grows which a variable is, or is a slot of; None of any other variable."""
    found = getattr(variable, _GROWS_WITH, None)
    return getattr(variable, "table", None) if found is None else found[0]


def slot_of(variable: Any) -> Any:
    """The `known_slots.Slot` that a slot of a table that grows is; None of any other variable."""
    found = getattr(variable, _GROWS_WITH, None)
    return None if found is None else found[1]


def assigned(variable: Any, value: Any, name: Optional[str]) -> Tuple[bool, Optional[tf.Operation]]:
    """Assigns a slot of a table that grows as a whole: see graph_ops/stores/slot_values.py.

    Args:
        variable: any variable.
        value: its new value, of its dtype.
        name: of the op.

    Returns:
        (whether this has been done here, the op that does it); eagerly there is no op. Of any other variable
        (False, None).

    Raises:
        ValueError: the value has another shape, or the table has a cache.

    Example:
        >>> import tensorflow as tf
        >>> from sok1x.core.tables import growing_slots
        >>> with tf.Graph().as_default():
        ...     variable = tf.get_variable("weights", [4], use_resource=True)
        ...     growing_slots.assigned(variable, [1.0, 2.0, 3.0, 4.0], None)
        (False, None)
    """
    found = getattr(variable, _GROWS_WITH, None)
    if found is None:
        return False, None
    cached_wholes.refuse(variable, found[0], "assign")
    value = tf.convert_to_tensor(value, variable.dtype.base_dtype)
    variable.shape.assert_is_compatible_with(value.shape)
    if tf.executing_eagerly() and int(value.shape[0]) > int(tf.shape(variable.read_value())[0]):
        return False, None  # Keras loads an optimizer before the table, with whose rows `fit` comes
    return True, slot_values.assign(found[0], found[1], variable.handle, value, name or "assign_slot")


class _Made:
    """A variable that is made beside a table that grows: its slot, or any other."""

    def __init__(self, shard: Any, given: Any) -> None:
        self._shard, self._given = shard, given
        self._slot: Optional[known_slots.Slot] = None

    def initial_value(self) -> tf.Tensor:
        """What the variable's constructor calls, in the scope of its initializer."""
        shard, graph = self._shard, tf.get_default_graph()
        example, is_slot = slot_beginnings.example(self._given, shard.table.dim, growing_shape.are_shapes_known())
        if not is_slot:
            return example
        scope, _, last = graph.get_name_scope().rpartition("/")
        if last != "Initializer":  # "Initializer_1": TensorFlow would say of what is no table "Duplicate node name"
            raise slot_beginnings.SlotError((
                "table '{0}': its optimizer would call a slot '{1}', and something else in the graph is called so: "
                "give the optimizer another name, as name='{2}_of_tables', or call the other otherwise").format(
                    shard.table.name, scope, scope.rpartition("/")[2]))
        self._slot = known_slots.Slot(scope, graph._container,
                                      slot_beginnings.number_of(shard.table.name, scope, example))
        row_shape = [shard.table.dim] if example.shape.rank is None else example.shape[1:].as_list()
        return initial.initial_slot(shard.table, self._slot, example.dtype.base_dtype, row_shape)

    def note(self, variable: Any) -> None:
        """The variable is there."""
        slot = self._slot
        if slot is None:
            return
        assert variable.handle.op.get_attr("shared_name").decode() == slot.name, variable.handle.op
        keep(variable, self._shard.table, slot)
        known_slots.note_made(variable.graph, self._shard.table.name, slot)


def create(next_creator: Callable[..., Any], shards: Iterable[Any], kwargs: Dict[str, Any]) -> Any:
    """Creates a variable; where it is a slot of a table that grows, with an initial value of ours.

    Args:
        next_creator: makes the variable.
        shards: the graph's `EmbeddingVariable`s.
        kwargs: of the creator.

    Returns:
        The variable.

    Raises:
        ValueError: the rows of the slot do not begin with one number.

    Example:
        >>> from sok1x.core.tables import growing_slots
        >>> growing_slots.create(dict, [], {"name": "weights"})
        {'name': 'weights'}
    """
    shard = _shard_at_hand(shards)
    given = kwargs.get("initial_value")
    if shard is None or not (callable(given) or isinstance(given, tf.Tensor)):  # the others' shapes are known
        return next_creator(**kwargs)
    made = _Made(shard, given)
    variable = next_creator(**{**kwargs, "initial_value": made.initial_value, "shape": None})
    made.note(variable)
    return variable


def _shard_at_hand(shards: Iterable[Any]) -> Any:
    """The table that grows with which a variable that is made now is colocated."""
    growing = {shard._handle.op: shard for shard in shards if shard.table.grows}
    if growing:
        for op in tf.get_default_graph()._colocation_stack.peek_objs():
            if op in growing:
                return growing[op]
    return None


def keep(variable: Any, table: Any, slot: Any) -> None:
    """Has a variable be known as a slot, a `known_slots.Slot`, of a table that grows."""
    setattr(variable, _GROWS_WITH, (table, slot))


def fit(variable: Any, shard: Any) -> None:
    """Gives an eager slot of a table that grows as many rows as the table has: what was restored may have others.

    Args:
        variable: any eager variable.
        shard: the `EmbeddingVariable` whose slot it may be.
    """
    slot = slot_of(variable)
    if slot is None:
        return
    with tf.init_scope():
        rows, there = (int(tf.shape(one.read_value())[0]) for one in (shard, variable))
        if there != rows:
            begin = initial.initial_slot(shard.table, slot, variable.dtype.base_dtype, variable.shape.as_list()[1:])
            ResourceVariable.assign(variable, tf.concat([variable.read_value()[:rows], begin[there:]], axis=0))

"""Slots of tables that grow: they begin with as many rows as the table has by then, and grow with it.

An optimizer says what its slots begin with by a tensor, or something that makes one, of the rows' shape; of a table
that grows nobody knows that when the graph is built. All rows of a slot begin with one number, whatever the optimizer
(TensorFlow's begin with 0, 0.1 or 1): it is read off what the optimizer says, and an op of ours makes the initial value
of it. Growth gives the same number to new rows.

Most optimizers take care of shapes that are not known. `shapes_known` is for those that do not: inside, a table that
grows passes itself off as one of a single row.

A lookup may give a table more rows, and the optimizer's step follows it, but for what does not depend on the gradient:
TensorFlow could read a slot, as `m * beta1`, before the lookup, and assign what it has made of it after. So `watch` has
optimizers wait for the gradient with all they do (`gradient_first`).
"""
import contextlib
import threading
from typing import Any, Callable, Dict, Iterable, Iterator, NoReturn, Optional

import tensorflow.compat.v1 as tf

from sok1x.core import slot_beginnings
from sok1x.graph_ops.bridge.tensorflow_versions import V2, KerasOptimizer, ResourceVariable, slot_creator
from sok1x.graph_ops.stores import initial, known_slots, slot_values

_local = threading.local()
_GROWS_WITH = "_sok1x_grows_with"  # the attribute of a slot that has its table, and what is known of it


class GrowingRows(tf.Dimension):
    """V of a table that grows, in its static shape: unknown, and with words for who must know it.

    Args:
        table: its name.

    Example:
        >>> from sok1x.core.growing_slots import GrowingRows
        >>> GrowingRows("EmbeddingVariable").value is None
        True
    """

    def __init__(self, table: str) -> None:
        super().__init__(None)
        self._table = table

    def _refuse(self) -> NoReturn:
        raise ValueError((
            "table '{}' grows, so the number of its rows is not known when the graph is built, and got asked for. If "
            "it was an optimizer that asked, wrap it: sok1x.OptimizerWrapper(optimizer)").format(self._table))

    __int__ = __long__ = __index__ = _refuse


@contextlib.contextmanager
def shapes_known() -> Iterator[None]:
    """Inside, in this thread, tables that grow have the static shape [1, D]: to make slots, and for nothing else.

    Example:
        >>> from sok1x.core import growing_slots
        >>> with growing_slots.shapes_known():
        ...     growing_slots.are_shapes_known()
        True
    """
    before = are_shapes_known()
    _local.known = True
    try:
        yield
    finally:
        _local.known = before


def are_shapes_known() -> bool:
    """Whether this is inside `shapes_known`.

    Returns:
        A bool.

    Example:
        >>> from sok1x.core import growing_slots
        >>> growing_slots.are_shapes_known()
        False
    """
    return getattr(_local, "known", False)


@contextlib.contextmanager
def gradient_first(variable: Any, *gradient: tf.Tensor) -> Iterator[None]:
    """Inside, ops follow a variable's gradient, if it is a table that grows.

    Args:
        variable: any variable.
        *gradient: tensors.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> from sok1x.core import growing_slots
        >>> with tf.Graph().as_default():
        ...     shard, gradient = sok.EmbeddingVariable(rows=None, dim=4), tf.constant(1.0)
        ...     with growing_slots.gradient_first(shard, gradient):
        ...         after = tf.no_op()
        >>> after.control_inputs == [gradient.op]
        True
    """
    table = getattr(variable, "table", None)
    with tf.control_dependencies(list(gradient) if table is not None and table.grows else []):
        yield


def watch() -> None:
    """From now on TensorFlow's optimizers step on tables that grow when the gradient is there, and not before.

    Example:
        >>> from sok1x.core import growing_slots
        >>> growing_slots.watch()
    """
    for kind in (tf.train.Optimizer, KerasOptimizer):
        stock = kind._resource_apply_sparse_duplicate_indices
        if not hasattr(stock, "stock"):
            kind._resource_apply_sparse_duplicate_indices = _waiting(stock)
    if V2 and not hasattr(tf.train.AdagradDAOptimizer._create_slots, "stock"):
        slot_creator.create_slot_with_initializer = _of_known_shape(slot_creator.create_slot_with_initializer)
        # It makes constants of the table's shape before it makes slots.
        tf.train.AdagradDAOptimizer._create_slots = _of_known_shapes(tf.train.AdagradDAOptimizer._create_slots)


def _of_known_shape(stock: Callable[..., Any]) -> Callable[..., Any]:
    """TensorFlow 2 keeps no `GrowingRows` in a shape, and would not say what to do."""
    def create_slot_with_initializer(primary: Any, initializer: Any, shape: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return stock(primary, initializer, shape, *args, **kwargs)
        except ValueError:
            if not tf.TensorShape(shape).is_fully_defined():
                _refuse_if_growing(primary)
            raise

    create_slot_with_initializer.stock = stock  # type: ignore[attr-defined]
    return create_slot_with_initializer


def _of_known_shapes(stock: Callable[..., Any]) -> Callable[..., Any]:
    def create_slots(self: Any, var_list: Any) -> Any:
        for variable in () if are_shapes_known() else var_list:
            _refuse_if_growing(variable)
        return stock(self, var_list)

    create_slots.stock = stock  # type: ignore[attr-defined]
    return create_slots


def _refuse_if_growing(variable: Any) -> None:
    if hasattr(variable, "table") and variable.table.grows:
        GrowingRows(variable.table.name)._refuse()


def _waiting(stock: Callable[..., Any]) -> Callable[..., Any]:
    def apply(self: Any, grad: tf.Tensor, handle: Any, indices: tf.Tensor, **kwargs: Any) -> Any:
        with gradient_first(handle, grad, indices):
            return stock(self, grad, handle, indices, **kwargs)

    apply.stock = stock  # type: ignore[attr-defined]
    return apply


def table_of(variable: Any) -> Optional[str]:
    """The name of the table that grows whose slot a variable is.

    Args:
        variable: any variable.

    Returns:
        A str, or None for any other variable.

    Example:
        >>> import tensorflow as tf
        >>> from sok1x.core import growing_slots
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


def slot_of(variable: Any) -> Any:
    """The `known_slots.Slot` that a slot of a table that grows is; None of any other variable."""
    found = getattr(variable, _GROWS_WITH, None)
    return None if found is None else found[1]


def assigned(variable: Any, value: Any, name: Optional[str]) -> Optional[tf.Operation]:
    """An op that assigns a slot of a table that grows as a whole: see graph_ops/stores/slot_values.py.

    Args:
        variable: any variable.
        value: its new value, of its dtype.
        name: of the op.

    Returns:
        A tf.Operation; None for any other variable.

    Raises:
        ValueError: the value has another shape, or the table has a cache.

    Example:
        >>> import tensorflow as tf
        >>> from sok1x.core import growing_slots
        >>> with tf.Graph().as_default():
        ...     variable = tf.get_variable("weights", [4], use_resource=True)
        ...     growing_slots.assigned(variable, [1.0, 2.0, 3.0, 4.0], None) is None
        True
    """
    found = getattr(variable, _GROWS_WITH, None)
    if found is None:
        return None
    if found[0].cache is not None:
        raise ValueError((
            "slot '{}' of table '{}', which has all rows in host memory and some in a cache: got an op that computes "
            "with the whole slot, as tf.train.AdamOptimizer's do, and would leave out what is not in the cache. Use an "
            "optimizer that moves the rows of the batch (tf.contrib.opt.LazyAdamOptimizer, "
            "sok1x.tf.keras.optimizers.LazyAdamOptimizer), or sok1x.optimizers.Adam, which moves all").format(
                variable.op.name, found[0].name))
    value = tf.convert_to_tensor(value, variable.dtype.base_dtype)
    variable.shape.assert_is_compatible_with(value.shape)
    return slot_values.assign(found[0], found[1], variable.handle, value, name or "assign_slot")


class _Made:
    """A variable that is made beside a table that grows: its slot, or any other."""

    def __init__(self, shard: Any, given: Any) -> None:
        self._shard, self._given = shard, given
        self._slot: Optional[known_slots.Slot] = None

    def initial_value(self) -> tf.Tensor:
        """What the variable's constructor calls, in the scope of its initializer."""
        shard, graph = self._shard, tf.get_default_graph()
        example, is_slot = slot_beginnings.example(self._given, shard.table.dim, are_shapes_known())
        if not is_slot:
            return example
        scope, _, last = graph.get_name_scope().rpartition("/")
        assert last == "Initializer", graph.get_name_scope()
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
        >>> from sok1x.core import growing_slots
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


def lengthen(variable: Any, shard: Any) -> None:
    """Gives an eager slot of a table that grows as many rows as the table has: what was restored may have fewer.

    Args:
        variable: any eager variable.
        shard: the `EmbeddingVariable` whose slot it may be.
    """
    slot = slot_of(variable)
    if slot is None:
        return
    with tf.init_scope():
        rows, there = (int(tf.shape(one.read_value())[0]) for one in (shard, variable))
        if there < rows:
            more = initial.initial_slot(shard.table, slot, variable.dtype.base_dtype, variable.shape.as_list()[1:])
            ResourceVariable.assign(variable, tf.concat([variable.read_value(), more[there:]], axis=0))

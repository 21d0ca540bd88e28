"""Dense gradients that tapes make of lookups, in loops and in `tf.recompute_grad`, of tables that forget, or grow.

Eagerly, and in functions that are called from there, a row stays its key's as long as its number is there that a lookup
or its gradient has found (bridge/bridge_pins.h). A dense gradient has no such numbers. So it is noted with it how many
rows had left the table when it was made, and a step by it is refused, by all ranks, once that is another number on one.
"""
import contextlib
import weakref
from typing import Any, List, NamedTuple

import tensorflow.compat.v1 as tf

from sok1x.graph_ops.bridge.tensorflow_versions import ResourceVariable, gen_resource_variable_ops, is_eager_outside
from sok1x.graph_ops.gradients import shard_gradients
from sok1x.graph_ops.operations import pinned_rows
from sok1x.graph_ops.stores.forgetting import EVICTED, KNOWN

_COUNTED = [EVICTED, KNOWN]  # the first begins again where a table is restored, and the second becomes another then


class _Left(NamedTuple):
    """Attributes:
      table: a weak reference to the `EmbeddingVariable`. rows: how many have left, a number or a tensor of the body.
      told: of a body, a variable that has the same for whoever calls the function; else None."""

    table: Any
    rows: Any
    told: Any


def note(gradient: tf.Tensor, variable: Any, counted: Any = ()) -> None:
    """Notes with a dense gradient how many rows have left its table by now, if any do.

    Args:
        gradient: [V, D]; an eager tensor, or one of the body of a function that is called from there.
        variable: the table's `EmbeddingVariable`.
        counted: what `counted_calls.counting` has given while it was made.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> from sok1x.core.frameworks import dense_gradients
        >>> with tf.Graph().as_default():
        ...     variable = sok.EmbeddingVariable(rows=8, dim=4)
        ...     dense_gradients.note(tf.zeros([8, 4]), variable)  # nothing: a session.run keeps its rows
    """
    if is_eager_outside() and rows_leave(variable):
        # Lookups that come later in a body wait for what is read of the table, not for the gradient.
        with tf.control_dependencies([] if tf.executing_eagerly() else [gradient]):
            here = None if tf.executing_eagerly() else tf.get_default_graph()
            first = [left for table, left in counted if table is variable and getattr(left, "graph", None) is here]
            _note(gradient, weakref.ref(variable), first[0] if first else rows_left(variable))


def note_again(noted: Any, gradient: tf.Tensor) -> None:
    """Notes with what a function has returned what `note` has noted with the same in its body.

    Args:
        noted: `shard_gradients.left_of` the body's tensor.
        gradient: what the caller has got.

    Example:
        >>> import tensorflow as tf
        >>> from sok1x.core.frameworks import dense_gradients
        >>> dense_gradients.note_again(None, tf.zeros([8, 4]))  # nothing has been noted
    """
    if noted is None:
        return
    if noted.told is None:  # noted eagerly, of what the body has from there
        shard_gradients.note_left(gradient, noted)
        return
    left = noted.told.read_value()
    _note(gradient, noted.table, left.numpy() if tf.executing_eagerly() else left)


def after_lookups(variables: List[Any]) -> Any:
    """Inside, in a function's body, ops wait for the lookups that have been built by now of tables whose rows leave.

    A tape's gradient has row numbers go that it alone has kept; by itself it would not wait for lookups that no
    gradient is made of, and they would have rows leave when it is counted how many have.

    Args:
        variables: of any kind.

    Returns:
        A context manager.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> from sok1x.core.frameworks import dense_gradients
        >>> with tf.Graph().as_default(), dense_gradients.after_lookups([sok.EmbeddingVariable(rows=8, dim=4)]):
        ...     pass  # nothing: a session.run keeps its rows
    """
    if tf.executing_eagerly() or not is_eager_outside():
        return contextlib.nullcontext()
    return tf.control_dependencies([rows_left(variable) for variable in variables if rows_leave(variable)])


def rows_leave(variable: Any) -> bool:
    """Whether a dense gradient of a variable may be applied, and rows of it leave: so that it must be counted how many.

    Args:
        variable: of any kind.

    Returns:
        A bool.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> from sok1x.core.frameworks import dense_gradients
        >>> with tf.Graph().as_default():
        ...     dense_gradients.rows_leave(sok.EmbeddingVariable(rows=8, dim=4))
        False
    """
    table = getattr(variable, "table", None)
    if table is None or table.cache is not None or table.forgetting is None:
        return False
    return bool(table.forgetting.strategy) or getattr(variable, "leaves_before_save", None) is not None


def rows_left(variable: Any) -> Any:
    """How many rows have left a table: eagerly, or in the body of a function that is called from there.

    Args:
        variable: the table's `EmbeddingVariable`, of which `rows_leave`.

    Returns:
        int64 [2], which is another whenever rows have left, or were replaced: an array; in a function's body a tensor.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> from sok1x.core.frameworks import dense_gradients
        >>> with tf.Graph().as_default():
        ...     variable = sok.DynamicVariable(4, max_capacity=8, init_capacity=8, evict_strategy="lru")
        ...     str(dense_gradients.rows_left(variable).shape)
        '(2,)'
    """
    counters = variable.forgetting["counters"]
    # One op: what is read of the whole variable is its memory, in which a lookup may count on.
    left = gen_resource_variable_ops.resource_gather(counters.handle, _COUNTED, dtype=tf.int64)
    return left.numpy() if tf.executing_eagerly() else left


def hold(rows: List[tf.Tensor], gradients: List[tf.Tensor]) -> None:
    """Has rows stay until gradients are made of them, in a function's body.

    Args:
        rows: row numbers, int32, those of other bodies too, which nothing is done about.
        gradients: tensors.

    Example:
        >>> from sok1x.core.frameworks import dense_gradients
        >>> dense_gradients.hold([], [])  # nothing
    """
    graph = tf.get_default_graph()
    rows = [each for each in rows if getattr(each, "graph", None) is graph and each.dtype == tf.int32]
    if rows and gradients and is_eager_outside():
        with tf.control_dependencies(gradients):
            pinned_rows.hold(rows[0], rows[1:])


def _note(gradient: tf.Tensor, table: Any, left: Any) -> None:
    told = None
    if not tf.executing_eagerly():
        with tf.init_scope():
            told = ResourceVariable([0] * len(_COUNTED), dtype=tf.int64, trainable=False)
        told.assign(left)
    shard_gradients.note_left(gradient, _Left(table, left, told))

"""Dense gradients that tapes make of lookups, in loops and in `tf.recompute_grad`, of tables that forget, or grow.

Eagerly, and in functions that are called from there, a row stays its key's as long as its number is there that a lookup
or its gradient has found (bridge/bridge_pins.h). A dense gradient has no such numbers. So it is noted with it how many
rows had left the table when it was made, and a step by it is refused once that is another number.
"""
import contextlib
import weakref
from typing import Any, List, NamedTuple

import tensorflow.compat.v1 as tf

from sok1x.graph_ops.bridge.tensorflow_versions import ResourceVariable, gen_resource_variable_ops, is_eager_outside
from sok1x.graph_ops.gradients import shard_gradients
from sok1x.graph_ops.operations import pinned_rows
from sok1x.graph_ops.stores.forgetting import EVICTED

_REMEDY = ("Take the step before the next lookup that trains, or take the lookup outside of tf.recompute_grad and of "
           "loops of a tf.function: then its gradient has row numbers, which keep the rows")


class _Left(NamedTuple):
    """Attributes:
      table: a weak reference to the `EmbeddingVariable`. rows: how many have left, a number or a tensor of the body.
      told: of a body, a variable that has the same for whoever calls the function; else None."""

    table: Any
    rows: Any
    told: Any


def note(gradient: tf.Tensor, variable: Any) -> None:
    """Notes with a dense gradient how many rows have left its table by now, if any do.

    Args:
        gradient: [V, D]; an eager tensor, or one of the body of a function that is called from there.
        variable: the table's `EmbeddingVariable`.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> from sok1x.core.frameworks import dense_gradients
        >>> with tf.Graph().as_default():
        ...     variable = sok.EmbeddingVariable(rows=8, dim=4)
        ...     dense_gradients.note(tf.zeros([8, 4]), variable)  # nothing: a session.run keeps its rows
    """
    if is_eager_outside() and "counters" in variable.forgetting:
        # Lookups that come later in a body wait for what is read of the table, not for the gradient.
        with tf.control_dependencies([] if tf.executing_eagerly() else [gradient]):
            _note(gradient, weakref.ref(variable), _left(variable))


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
    if noted is not None and noted.told is not None:
        left = noted.told.read_value()
        _note(gradient, noted.table, int(left) if tf.executing_eagerly() else left)


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
    return tf.control_dependencies([_left(variable) for variable in variables
                                    if "counters" in (getattr(variable, "forgetting", None) or ())])


def check(gradient: tf.Tensor, variable: Any) -> tf.Tensor:
    """A dense gradient of a table as a step may have it.

    Args:
        gradient: [V, D], as for `note`.
        variable: the table's `EmbeddingVariable`.

    Returns:
        The gradient; in a function's body another tensor, which is an error where rows have left.

    Raises:
        ValueError: rows have left, or the table has grown, since it was made.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> from sok1x.core.frameworks import dense_gradients
        >>> with tf.Graph().as_default():
        ...     variable, gradient = sok.EmbeddingVariable(rows=8, dim=4), tf.zeros([8, 4])
        ...     dense_gradients.check(gradient, variable) is gradient
        True
    """
    if tf.executing_eagerly() and variable.table.grows:
        rows = int(gen_resource_variable_ops.variable_shape(variable.handle)[0])
        given = tuple(getattr(gradient, "shape", ()))  # it may be an array
        if given and given[0] < rows:
            raise ValueError(
                "embedding table '{}', which grows: got a dense gradient of {} rows, made before the table had {}; the "
                "table was not changed. {}".format(variable.table.name, given[0], rows, _REMEDY))
    noted = shard_gradients.left_of(gradient)
    if noted is None:
        return gradient
    text = ("embedding table '{}', whose rows leave at max_capacity: got a dense gradient, and rows have left since it "
            "was made, which may be other keys' by now; the table was not changed. {}").format(
                variable.table.name, _REMEDY)
    now = _left(variable)
    if tf.executing_eagerly():
        if now != noted.rows:
            raise ValueError(text)
        return gradient
    with tf.control_dependencies([tf.debugging.Assert(tf.equal(now, noted.rows), [text])]):
        checked = tf.identity(gradient)
    shard_gradients.keep_marks(gradient, checked)
    shard_gradients.note_left(checked, None)  # an optimizer inside of this one need not ask again
    return checked


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
            told = ResourceVariable(0, dtype=tf.int64, trainable=False)
        told.assign(left)
    shard_gradients.note_left(gradient, _Left(table, left, told))


def _left(variable: Any) -> Any:
    """How many rows have left a table: a number; in a function's body a tensor."""
    counters = variable.forgetting["counters"]
    # One op: what is read of the whole variable is its memory, in which a lookup may count on.
    left = gen_resource_variable_ops.resource_gather(counters.handle, EVICTED, dtype=tf.int64)
    return int(left) if tf.executing_eagerly() else left

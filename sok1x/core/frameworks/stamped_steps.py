"""Optimizers' steps on tables by gradients that no lookup has made: they stamp the rows that they move.

A lookup's gradient has stamped its rows (graph_ops/stores/clock.py), and in a tf.Graph so has one through a table's
value. Not so a gradient that is made by hand; nor one that is dense where a lookup gave row numbers, as TensorFlow's
loss scaling and some ways of clipping make it: an optimizer with a momentum moves rows by it that the lookup did not
find. And of eager tensors nothing tells from what a tape has made them. So the rows are stamped when a step is taken,
all of them where the gradient is dense: one too many is dumped again, one too few never.

Outside of functions any time may pass between a gradient and its step, and a dump come between: there the step stamps a
lookup's rows once more.
"""
from typing import Any, Callable

import tensorflow.compat.v1 as tf

from sok1x.core.eagerly import eager
from sok1x.core.frameworks import wrapping
from sok1x.graph_ops.bridge.tensorflow_versions import KERAS_OPTIMIZERS, contrib_optimizer_v2
from sok1x.graph_ops.gradients import marks, row_numbers, shard_gradients
from sok1x.graph_ops.stores import clock, stamps

_STAMPS = "_sok1x_stamps_rows"  # of a tensor: the rows that it is a gradient of are stamped before it is there


def watch() -> None:
    """From now on these steps stamp the rows that they move.

    Called with each table: TensorFlow 1.15's contrib may have been imported meanwhile.

    Example:
        >>> from sok1x.core.frameworks import stamped_steps
        >>> stamped_steps.watch()
    """
    for kind in (tf.train.Optimizer, *KERAS_OPTIMIZERS, contrib_optimizer_v2()):
        if kind is not None:
            wrapping.wrap(kind, "apply_gradients", _stamping)


def _stamping(stock: Callable[..., Any]) -> Callable[..., Any]:
    def apply_gradients(self: Any, grads_and_vars: Any, *args: Any, **kwargs: Any) -> Any:
        pairs = list(grads_and_vars)
        if not eager.is_on():
            return stock(self, [(_stamping_first(*pair), pair[1]) for pair in pairs], *args, **kwargs)
        of_lookups = []
        for gradient, variable in pairs:
            if gradient is not None and hasattr(variable, "table_variables"):
                rows = _rows_of(gradient)
                if are_stamped(rows, variable):
                    of_lookups.append((variable, rows))
                else:
                    stamps.mark(variable.table_variables, rows)
        with clock.stamping() as stamped:
            step = stock(self, pairs, *args, **kwargs)
        # Our own optimizers stamp what they move, and so do others that assign to the table.
        if tf.executing_eagerly():
            for variable, rows in of_lookups:
                if variable.table.name not in stamped:
                    stamps.mark(variable.table_variables, rows)
        return step

    return apply_gradients


def _stamping_first(gradient: Any, variable: Any) -> Any:
    """In a graph a gradient that is there once rows have been stamped that a step by it moves."""
    if gradient is None or not hasattr(variable, "table_variables") or are_stamped(_rows_of(gradient), variable):
        return gradient
    values = shard_gradients.values_of(gradient)
    if not marks.noted(values, _STAMPS, False):  # as by an optimizer that this one is in
        # Not the whole step waits: in it an optimizer may make variables, whose first values would wait, too.
        with tf.control_dependencies([stamps.mark(variable.table_variables, _rows_of(gradient))]):
            values = tf.identity(values, name="stamped")
        marks.note(values, _STAMPS, True)
    return shard_gradients.with_values(gradient, values)


def _rows_of(gradient: Any) -> Any:
    """Its row numbers; None: it is dense, and has all."""
    return gradient.indices if isinstance(gradient, tf.IndexedSlices) else None


def are_stamped(rows: Any, variable: Any) -> bool:
    """Whether rows that are about to change have been stamped: they are those of a lookup's gradient.

    Args:
        rows: their numbers, integers [n]; None: all.
        variable: the table's.

    Returns:
        A bool.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> from sok1x.core.frameworks import stamped_steps
        >>> with tf.Graph().as_default():
        ...     stamped_steps.are_stamped(tf.constant([1, 2]), sok.EmbeddingVariable(rows=8, dim=4))
        False
    """
    return rows is not None and row_numbers.are_all_of(rows, variable.table.name)

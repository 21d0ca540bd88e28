"""Optimizers' steps in eager execution, and in functions called from there, by gradients that no lookup has made.

A lookup's gradient has stamped its rows (graph_ops/stores/clock.py), and in a tf.Graph so has any other of a table. Of
eager tensors nothing tells from what a tape has made them: so the rows are stamped when a step is taken, whether it is
by a gradient of the table's value, as of a regularizer, of numbered rows, or one made by hand.

Outside of functions any time may pass between a gradient and its step, and a dump come between: there the step stamps a
lookup's rows once more.
"""
from typing import Any, Callable

import tensorflow.compat.v1 as tf

from sok1x.core.eagerly import eager
from sok1x.core.frameworks import wrapping
from sok1x.graph_ops.bridge.tensorflow_versions import KERAS_OPTIMIZERS, V2
from sok1x.graph_ops.gradients import row_numbers
from sok1x.graph_ops.stores import clock, stamps


def watch() -> None:
    """From now on these steps stamp the rows that they move.

    Example:
        >>> from sok1x.core.eagerly import eager_steps
        >>> eager_steps.watch()  # nothing, in TensorFlow 1.15
    """
    if V2:
        for kind in (tf.train.Optimizer, *KERAS_OPTIMIZERS):
            wrapping.wrap(kind, "apply_gradients", _stamping)


def _stamping(stock: Callable[..., Any]) -> Callable[..., Any]:
    def apply_gradients(self: Any, grads_and_vars: Any, *args: Any, **kwargs: Any) -> Any:
        pairs, of_lookups = list(grads_and_vars), []
        if eager.is_on():
            for gradient, variable in pairs:
                if gradient is not None and hasattr(variable, "table_variables"):
                    rows = gradient.indices if isinstance(gradient, tf.IndexedSlices) else None
                    if not stamp(variable, rows):
                        of_lookups.append((variable, rows))
        before = clock.made()
        step = stock(self, pairs, *args, **kwargs)
        # Our own optimizers stamp what they move, and so do others that assign to the table.
        if of_lookups and tf.executing_eagerly() and clock.made() == before:
            for variable, rows in of_lookups:
                stamps.mark(variable.table_variables, rows)
        return step

    return apply_gradients


def stamp(variable: Any, rows: Any) -> bool:
    """Stamps rows that are about to change, but for those of a lookup's gradient, which have been stamped.

    Args:
        variable: a table's.
        rows: their numbers; None: all.

    Returns:
        Whether it has stamped any.

    Raises:
        tf.errors.InvalidArgumentError: there is no such row.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> from sok1x.core.eagerly import eager_steps
        >>> with tf.Graph().as_default():
        ...     eager_steps.stamp(sok.EmbeddingVariable(rows=8, dim=4), tf.constant([1, 2]))
        True
    """
    if rows is not None and row_numbers.are_all_of(rows, variable.table.name):
        return False
    stamps.mark(variable.table_variables, rows)
    return True

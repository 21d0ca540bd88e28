"""Gradients that a `tf.GradientTape` makes of a table's value or of numbered rows of it, as of a regularizer.

Those of tf.gradients the graph tells, by which op they differentiate (stamped_variable.py). A tape goes past that: what
it gives is looked at here, so that whoever clips or exchanges such a gradient knows that it is a rank's own. In a
tf.Graph its rows are stamped here too; in eager execution they are when a step is taken (stamped_steps.py).
"""
from typing import Any, Callable

import tensorflow.compat.v1 as tf

from sok1x.core.frameworks import counted_calls, dense_gradients, wrapping
from sok1x.core.thread_scope import ThreadScope
from sok1x.graph_ops.bridge.tensorflow_versions import in_plain_graph, nest
from sok1x.graph_ops.gradients import row_numbers, shard_gradients
from sok1x.graph_ops.stores import stamps

# Row numbers of the gradients that other tapes have made, as tf.recompute_grad's do, while one is making its own: rows
# stay as long as these are there, and it may be that nobody else has them.
_rows_inside = ThreadScope()


def watch() -> None:
    """From now on tapes note their gradients of tables.

    Example:
        >>> from sok1x.core.frameworks import tape_gradients
        >>> tape_gradients.watch()
    """
    wrapping.wrap(tf.GradientTape, "gradient", _noting)


def _noting(stock: Callable[..., Any]) -> Callable[..., Any]:
    def gradient(self: Any, target: Any, sources: Any, *args: Any, **kwargs: Any) -> Any:
        outer, rows = _rows_inside.value, []  # type: Any, Any
        variables = nest.flatten(sources)
        with _rows_inside.entered(rows), counted_calls.counting() as counted, \
                dense_gradients.after_lookups(variables):
            found = stock(self, target, sources, *args, **kwargs)
        if any(hasattr(variable, "table_variables") for variable in variables):
            made = [_noted(each, variable, counted) if each is not None and hasattr(variable, "table_variables")
                    else each for each, variable in zip(nest.flatten(found), variables)]
            counted_calls.mark_body([variable for each, variable in zip(made, variables) if isinstance(
                each, tf.IndexedSlices) and hasattr(variable, "table_variables")])
            if rows:
                dense_gradients.hold(rows, [each for each, variable in zip(made, variables) if isinstance(
                    each, tf.Tensor) and hasattr(variable, "table_variables")])
            if outer is not None:
                rows += [each.indices for each in made if isinstance(each, tf.IndexedSlices)]
            found = nest.pack_sequence_as(sources, made)
        if outer is not None:
            outer += rows
        return found

    return gradient


def _noted(gradient: Any, variable: Any, counted: Any) -> Any:
    """The gradient of a table as another tensor, for this one may be that of other variables too."""
    name, slices = variable.table.name, isinstance(gradient, tf.IndexedSlices)
    if slices and (not in_plain_graph() or row_numbers.are_all_of(gradient.indices, name)):
        return gradient
    rows = gradient.indices if slices else None
    with tf.control_dependencies([stamps.mark(variable.table_variables, rows)] if in_plain_graph() else []):
        values = tf.identity(gradient.values if slices else gradient)
    shard_gradients.add(name, values, rows)
    if not slices:
        dense_gradients.note(values, variable, counted)
    return tf.IndexedSlices(values, rows, gradient.dense_shape) if slices else values

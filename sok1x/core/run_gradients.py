"""Gradients of tables whose rows do not stay where they are: of the run that applies them, and of a lookup.

A row number says which key is meant for as long as the row is that key's. Where rows leave a table, or its cache, that
is until the end of the session.run that has looked them up. A gradient that waits for another one, in a variable that
accumulates, in a queue, or in the user's hands, would change other keys' rows, and nothing would say so.
"""
from typing import Any, Callable

import tensorflow.compat.v1 as tf

from sok1x.core import wrapping
from sok1x.graph_ops.bridge.tensorflow_versions import KerasOptimizer, NewKerasOptimizer, in_plain_graph
from sok1x.graph_ops.gradients import row_numbers


def watch() -> None:
    """From now on TensorFlow's optimizers refuse such gradients.

    Example:
        >>> from sok1x.core import run_gradients
        >>> run_gradients.watch()
    """
    for kind in (tf.train.Optimizer, KerasOptimizer, NewKerasOptimizer):
        if kind is not None:
            wrapping.wrap(kind, "apply_gradients", _checked)


def _checked(stock: Callable[..., Any]) -> Callable[..., Any]:
    def apply_gradients(self: Any, grads_and_vars: Any, *args: Any, **kwargs: Any) -> Any:
        pairs = list(grads_and_vars)
        if in_plain_graph():
            for gradient, variable in pairs:
                if gradient is not None and hasattr(variable, "table"):
                    _check(gradient, variable.table)
        return stock(self, pairs, *args, **kwargs)

    return apply_gradients


def _check(gradient: Any, table: Any) -> None:
    """Raises where a gradient cannot be one of the run that applies it."""
    cached = table.cache is not None
    if not cached and not (table.forgetting is not None and table.forgetting.strategy):
        return
    whole = not isinstance(gradient, tf.IndexedSlices)
    if whole and cached:
        raise ValueError((
            "embedding table '{}', which has all rows in host memory and some in a cache: got a gradient of the whole "
            "variable (op '{}'), as that of a regularizer of it is, expected a lookup's: rows that are not in the "
            "cache would be left out. Make the loss of looked up rows alone, as tf.nn.l2_loss(rows)").format(
                table.name, gradient.op.name))
    moves = "whose rows come into a cache and go back" if cached else "whose rows leave at max_capacity"
    kept = row_numbers.origin(gradient, True).kept if whole else row_numbers.origin(gradient.indices).kept
    if kept is not None and kept.name != table.name:
        raise ValueError((
            "embedding table '{}', {}: got a gradient whose {} come from op '{}' ({}), expected a lookup's of the same "
            "session.run: in another one these rows may be other keys'. Apply the table's gradient in the run that "
            "computes it (to accumulate, add up the losses of several batches in one run; dense variables may wait), "
            "or let no row leave: var_type='hbm', or neither evict_strategy nor a cache").format(
                table.name, moves, "values" if whole else "row numbers", kept.name, kept.type))

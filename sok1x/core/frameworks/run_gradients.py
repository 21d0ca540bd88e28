"""Gradients of tables whose rows do not stay where they are: of the run that applies them, and of a lookup.

A row number says which key is meant for as long as the row is that key's. Where rows leave a table, or its cache, that
is until the end of the session.run that has looked them up. A gradient that waits for another one, in a variable that
accumulates, in a queue, or in the user's hands, would change other keys' rows, and nothing would say so.

So what the graph shows to be kept is refused, what comes from a lookup may not be fed, and what comes from anywhere
else is looked at when it runs.
"""
import contextlib
import weakref
from typing import Any, Callable, Dict, List, Optional, Tuple

import tensorflow.compat.v1 as tf

from sok1x.core.frameworks import kept_steps, wrapping
from sok1x.core.thread_scope import ThreadScope
from sok1x.graph_ops.bridge.tensorflow_versions import (
    KERAS_OPTIMIZERS,
    client_session,
    in_plain_graph,
    keras_loss_scale,
)
from sok1x.graph_ops.gradients import gradient_checks, row_numbers, shard_gradients
from sok1x.graph_ops.operations import pinned_rows

_RULE = ("expected a lookup's of the same session.run: in another one these rows may be other keys'. Apply the table's "
         "gradient in the run that computes it (to accumulate, add up the losses of several batches in one run; dense "
         "variables may wait), or let no row leave: var_type='hbm', or neither evict_strategy nor a cache")

# graph -> {name of a tensor that may not be fed: the table's name, how its rows move, and what the tensor is}
_not_fed: "weakref.WeakKeyDictionary[Any, Dict[str, Tuple[str, str, str]]]" = weakref.WeakKeyDictionary()
_inside = ThreadScope()  # the optimizer whose gradients have been looked at


def watch() -> None:
    """From now on TensorFlow's optimizers refuse such gradients.

    Example:
        >>> from sok1x.core.frameworks import run_gradients
        >>> run_gradients.watch()
    """
    for kind in (tf.train.Optimizer, *KERAS_OPTIMIZERS, *_loss_scales()):
        wrapping.wrap(kind, "apply_gradients", _checked)
    wrapping.wrap(client_session.BaseSession, "_run", _explained)  # of whole runs and of parts


def of_this_run(rows: tf.Tensor, variable: Any, values: Optional[tf.Tensor] = None) -> Tuple[tf.Tensor, Any]:
    """Row numbers of a graph by which a table's rows are to change, as they must be given on.

    Args:
        rows: integers [n].
        variable: the table's `EmbeddingVariable`.
        values: [n, D], the gradient of each, if it is one.

    Returns:
        (rows, values), or, where the graph does not say that they are of rows of the run, those that have turned out
        to be.

    Raises:
        ValueError: they come from another session.run, and the table's rows do not stay where they are.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> from sok1x.core.frameworks import run_gradients
        >>> with tf.Graph().as_default():
        ...     rows = tf.constant([0, 1])
        ...     run_gradients.of_this_run(rows, sok.EmbeddingVariable(rows=8, dim=4))[0] is rows
        True
    """
    moves = _moves(variable)
    if not moves:
        return rows, values
    name, origin = variable.table.name, row_numbers.origin(rows)
    _refuse_kept(origin.kept, name, moves, "row numbers")
    _refuse_feeding(origin.way, name, moves, "row numbers")
    if origin.unknown is None and not (origin.whole and variable.table.cache is not None):
        return rows, values
    return pinned_rows.check(variable.table_variables, rows, values)


def _checked(stock: Callable[..., Any]) -> Callable[..., Any]:
    def apply_gradients(self: Any, grads_and_vars: Any, *args: Any, **kwargs: Any) -> Any:
        pairs, first = list(grads_and_vars), []  # type: Any, Any
        if not _given_on(self):
            for gradient, variable in [pair[:2] for pair in pairs]:
                if gradient is not None and hasattr(variable, "table"):
                    _check_whole(gradient, variable.table)
                    if not in_plain_graph() and not isinstance(gradient, tf.IndexedSlices):
                        _check_sum(gradient, variable.table)
            pairs, first = (kept_steps.check(pairs, _exchanges(self, pairs)) if not in_plain_graph()
                            else (pairs, kept_steps.of_growing(pairs)))
        if in_plain_graph():
            pairs = [pair if pair[0] is None or not hasattr(pair[1], "table") else (_check(*pair), *pair[1:])
                     for pair in pairs]
        # A step that is refused is not taken at all, of other variables neither.
        with _inside.entered(self), tf.control_dependencies(first) if first else contextlib.nullcontext():
            return stock(self, pairs, *args, **kwargs)

    return apply_gradients


def _exchanges(optimizer: Any, pairs: List[Any]) -> bool:
    """Whether all ranks take a step together: they have exchanged gradients of other variables than tables for it."""
    return hasattr(optimizer, "_sok1x_averages") and any(
        gradient is not None and not hasattr(variable, "table") for gradient, variable in [
            pair[:2] for pair in pairs])


def _given_on(optimizer: Any) -> bool:
    """Whether its gradients have been looked at: it calls its base class, or a loss scale gives those that it
    has made, which no tape has."""
    outer = _inside.value
    return outer is not None and (outer is optimizer or isinstance(outer, _loss_scales()))


def _loss_scales() -> Tuple[Any, ...]:
    return () if keras_loss_scale is None else (
        keras_loss_scale.LossScaleOptimizer, keras_loss_scale.LossScaleOptimizerV3)


def _check_whole(gradient: Any, table: Any) -> None:
    """Raises where a gradient would leave out the rows that are in host memory alone."""
    if table.cache is None or isinstance(gradient, tf.IndexedSlices):
        return
    raise ValueError((
        "embedding table '{}', which has all rows in host memory and some in a cache: got a gradient of the whole "
        "variable{}, as that of a regularizer of it is, that of lookups in a loop of a tf.function or in "
        "tf.recompute_grad, or what tf.contrib.mixed_precision.LossScaleOptimizer makes of a lookup's, expected a "
        "lookup's: rows that are not in the cache would be left out. Make the loss of looked up rows alone, as "
        "tf.nn.l2_loss(rows), take one lookup of all keys before a loop, look up outside of tf.recompute_grad, and "
        "scale the loss by sok.tf.keras.mixed_precision.LossScaleOptimizer").format(
            table.name, " (op '{}')".format(gradient.op.name) if hasattr(gradient, "graph") else ""))


def _check_sum(gradient: Any, table: Any) -> None:
    """Raises where a dense gradient is not as a tape has made it, while which rows stay (bridge/bridge_pins.h)."""
    if table.forgetting is None or not table.forgetting.strategy:
        return
    if shard_gradients.table_of_gradient(gradient) != table.name:
        raise ValueError((
            "embedding table '{}', whose rows leave at max_capacity: got a sum of gradients, or another dense tensor "
            "made of them, expected the gradient that a tape has made: rows of an earlier batch may be other keys' by "
            "now. Add up the losses of several batches, or take a step for each (dense variables may wait), or let no "
            "row leave: var_type='hbm', or no evict_strategy").format(table.name))


def _check(gradient: Any, variable: Any) -> Any:
    """The gradient; raises where it cannot be one of the run that applies it, or has been changed by others' rows."""
    table, moves = variable.table, _moves(variable)
    gradient_checks.check_applied(gradient, table.name)
    if not moves:
        return gradient
    if isinstance(gradient, tf.IndexedSlices):
        rows, values = of_this_run(gradient.indices, variable, gradient.values)
        return gradient if rows is gradient.indices else tf.IndexedSlices(values, rows, gradient.dense_shape)
    origin = row_numbers.origin(gradient, True)
    _refuse_kept(origin.kept, table.name, moves, "values")
    _refuse_feeding(origin.way, table.name, moves, "a dense gradient")
    return gradient


def _moves(variable: Any) -> str:
    """In words how rows of a table become others'; '' where each key has its row for good."""
    table = variable.table
    if table.cache is not None:
        return "whose rows come into a cache and go back"
    if table.forgetting is not None and table.forgetting.strategy:
        return "whose rows leave at max_capacity"
    return "" if getattr(variable, "leaves_before_save", None) is None else "whose rows leave when it is saved"


def _refuse_kept(kept: Optional[tf.Operation], table_name: str, moves: str, what: str) -> None:
    if kept is not None and kept.name != table_name:
        raise ValueError("embedding table '{}', {}: got a gradient whose {} come from op '{}' ({}), {}".format(
            table_name, moves, what, kept.name, kept.type, _RULE))


def _refuse_feeding(tensors: List[tf.Tensor], table_name: str, moves: str, what: str) -> None:
    for tensor in tensors:  # without another op in each run
        tensor.graph.prevent_feeding(tensor)
        _not_fed.setdefault(tensor.graph, {})[tensor.name] = table_name, moves, what


def _explained(stock: Callable[..., Any]) -> Callable[..., Any]:
    """BaseSession's method, of which TensorFlow says no more than that a tensor may not be fed."""
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return stock(self, *args, **kwargs)
        except ValueError as error:
            text = str(error)
            if "may not be fed" in text:
                for name, (table_name, moves, what) in _not_fed.get(self.graph, {}).items():
                    if '"{}"'.format(name) in text or " {} ".format(name) in text:
                        raise ValueError("embedding table '{}', {}: got {} fed (tensor '{}'), {}".format(
                            table_name, moves, what, name, _RULE)) from error
            raise

    return method

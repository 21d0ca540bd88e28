"""Gradients of lookups in loops: without the row that TensorFlow begins their sum with.

The gradient of a loop's variable is the sum over the turns. Where it is made of rows, TensorFlow joins them, and begins
with zeros for row 0. To a table that row is another key on each rank, or there is none: a rank may have no rows, and
row 0 of a table that grows may be free. Optimizers with momentum or decay would move it, though nobody asked for it.
"""
import contextlib
import functools
from typing import Any, Callable, Iterator

import tensorflow.compat.v1 as tf

from sok1x.core.graph_keys import GraphKeys
from sok1x.graph_ops.bridge.tensorflow_versions import control_flow_ops

_MARK = "_sok1x_leaves_out_row_0"
_ENTRANCES = ("Enter", "RefEnter", "Switch", "RefSwitch", "Identity")


def watch() -> None:
    """From now on gradients of lookups in loops have the rows that were asked for, and no others.

    Example:
        >>> from sok1x.core import loop_gradients
        >>> loop_gradients.watch()
    """
    kind = control_flow_ops.WhileContext
    if not hasattr(kind.AddBackpropIndexedSlicesAccumulator, _MARK):
        kind.AddBackpropIndexedSlicesAccumulator = _of_rows_asked_for(kind.AddBackpropIndexedSlicesAccumulator)


def _of_rows_asked_for(stock: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(stock)
    def accumulate(self: Any, op: tf.Operation, grad: tf.IndexedSlices) -> tf.IndexedSlices:
        found = stock(self, op, grad)
        if not _is_of_table(op):
            return found
        with _outside(self):
            return tf.IndexedSlices(found.values[1:], found.indices[1:], found.dense_shape)

    setattr(accumulate, _MARK, True)
    return accumulate


@contextlib.contextmanager
def _outside(loop: Any) -> Iterator[None]:
    """Inside, ops are where the loop is that is being built, which may be in another one."""
    loop.Exit()
    if loop.outer_context:
        loop.outer_context.Enter()
    yield
    if loop.outer_context:
        loop.outer_context.Exit()
    loop.Enter()


def _is_of_table(op: tf.Operation) -> bool:
    """Whether what an op brings into a loop is a table, which may come through other loops and branches."""
    while op.type in _ENTRANCES:
        op = op.inputs[0].op
    return op.name in {variable.table.name
                       for variable in op.graph.get_collection(GraphKeys.GLOBAL_EMBEDDING_VARIABLES)
                       if hasattr(variable, "table")}

"""Gradients of lookups in loops: without the row that TensorFlow begins their sum with.

The gradient of a loop's variable is the sum over the turns. Where it is made of rows, TensorFlow joins them, and begins
with zeros for row 0. To a table that row is another key on each rank, or there is none: a rank may have no rows, and
row 0 of a table that grows may be free. Optimizers with momentum or decay would move it, though nobody asked for it.
"""
import contextlib
from typing import Any, Callable, Iterator

import tensorflow.compat.v1 as tf

from sok1x.core.frameworks import wrapping
from sok1x.core.graph_keys import GraphKeys
from sok1x.graph_ops.bridge.tensorflow_versions import control_flow_ops

_ENTRANCES = ("Enter", "RefEnter", "Switch", "RefSwitch", "Identity")


def watch() -> None:
    """From now on gradients of lookups in loops have the rows that were asked for, and no others.

    Example:
        >>> from sok1x.core.frameworks import loop_gradients
        >>> loop_gradients.watch()
    """
    wrapping.wrap(control_flow_ops.WhileContext, "AddBackpropIndexedSlicesAccumulator", _of_rows_asked_for)


def _of_rows_asked_for(stock: Callable[..., Any]) -> Callable[..., Any]:
    def accumulate(self: Any, op: tf.Operation, grad: tf.IndexedSlices) -> tf.IndexedSlices:
        found = stock(self, op, grad)
        if not _is_of_table(op):
            return found
        with _outside(self):
            return tf.IndexedSlices(found.values[1:], found.indices[1:], found.dense_shape)

    return accumulate


@contextlib.contextmanager
def _outside(loop: Any) -> Iterator[None]:
    """Inside, ops are where the loop is that is being built, which may be in another one."""
    loop.Exit()
    if loop.outer_context:
        loop.outer_context.Enter()
    try:
        yield
    finally:
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

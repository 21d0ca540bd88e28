"""Gradients of lookups in branches: where a branch is not taken, TensorFlow has zeros for all rows of the table.

Optimizers with momentum or decay move rows by them, as those of a variable that tf.gather reads. So in a step that does
not take the branch all rows are marked as changed, which incremental dumps then have. Of a table with a cache such a
step moves none: pinned_rows.py leaves out all rows that the run has not looked up.
"""
from typing import Any, Callable, List, Optional

import tensorflow.compat.v1 as tf

from sok1x.core.frameworks import wrapping
from sok1x.core.graph_keys import GraphKeys
from sok1x.graph_ops.bridge.tensorflow_versions import control_flow_grad
from sok1x.graph_ops.stores import stamps

_OF_A_BRANCH = "cond_grad"  # the name by which TensorFlow merges both branches' gradients
_ZEROS = ("Fill", "VariableShape", "Switch", "RefSwitch", "Enter", "RefEnter", "Identity")


def watch() -> None:
    """From now on such steps mark the rows of tables.

    Example:
        >>> from sok1x.core.frameworks import branch_gradients
        >>> branch_gradients.watch()
    """
    wrapping.wrap(control_flow_grad, "merge", _marking)


def _marking(stock: Callable[..., Any]) -> Callable[..., Any]:
    def merge(inputs: Any, name: Optional[str] = None) -> Any:
        if name == _OF_A_BRANCH and any(isinstance(each, tf.IndexedSlices) for each in inputs):
            inputs = [_marked(each) if isinstance(each, tf.Tensor) else each for each in inputs]
        return stock(inputs, name=name)

    return merge


def _marked(zeros: tf.Tensor) -> tf.Tensor:
    """The zeros, after the rows of the table that they are of have been marked; or as they are."""
    variables = _table_of(zeros)
    if not variables:
        return zeros
    with tf.control_dependencies([zeros]):  # which are not there in a step that takes the branch
        marked = stamps.mark(variables[0].table_variables)
    with tf.control_dependencies([marked]):
        return tf.identity(zeros)


def _table_of(zeros: tf.Tensor) -> List[Any]:
    handle = zeros
    while handle.op.type in _ZEROS:
        handle = handle.op.inputs[0]
    return [variable for variable in tf.get_collection(GraphKeys.GLOBAL_EMBEDDING_VARIABLES)
            if hasattr(variable, "table") and variable.table.cache is None and variable._handle is handle]

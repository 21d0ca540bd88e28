"""`tf.contrib.opt.MultitaskOptimizerWrapper` on tables: all ranks step on a table, or none does.

It leaves out the step of a variable whose gradient is all zeros. Of a table's each rank has the rows that it owns, or
none: it would leave out a step that others take, though Adam moves rows without a gradient, too.
"""
import sys
from typing import Any, Callable

import tensorflow.compat.v1 as tf

from sok1x.core.frameworks import wrapping
from sok1x.graph_ops.bridge.tensorflow_versions import V2
from sok1x.graph_ops.gradients import provenance
from sok1x.graph_ops.operations import collectives

_MULTITASK = "tensorflow.contrib.opt.python.training.multitask_optimizer_wrapper"


def watch() -> None:
    """From now on it looks at all ranks' parts of a table's gradient.

    Example:
        >>> from sok1x.optimizers import zero_gradients
        >>> zero_gradients.watch()
    """
    if not V2:  # contrib may be imported later, but before its optimizer has another one apply gradients
        wrapping.call_before(tf.train.Optimizer, "apply_gradients", _watch_contrib)


def _watch_contrib() -> None:
    contrib = sys.modules.get(_MULTITASK)
    if contrib is not None:
        wrapping.wrap(contrib, "_is_all_zeros", _on_all_ranks)


def _on_all_ranks(stock: Callable[..., Any]) -> Callable[..., Any]:
    def is_all_zeros(grad: Any) -> Any:
        mine = stock(grad)
        if provenance.ranks() == 1 or not provenance.standing(grad).tables:
            return mine
        others, = collectives.all_reduce([tf.cast(tf.logical_not(mine), tf.float32)], average=False,
                                         name="ranks_with_gradients")
        return tf.equal(others, 0)

    return is_all_zeros

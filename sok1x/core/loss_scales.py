"""Keras' LossScaleOptimizer (TensorFlow 2) on tables: all ranks take a step, or none does.

It looks at the gradients of its own rank: a table's are complete there, but for its rows alone. If one rank skipped a
step that others take, their loss scales, counts of steps and dense variables would differ from then on.
"""
import functools
import threading
from typing import Any, Callable

import tensorflow.compat.v1 as tf

from sok1x import launch
from sok1x.graph_ops.bridge import tensorflow_versions
from sok1x.graph_ops.operations import finite

_local = threading.local()


def watch() -> None:
    """From now on ranks agree whether gradients are finite, in steps that train tables.

    Example:
        >>> from sok1x.core import loss_scales
        >>> loss_scales.watch()  # nothing, in TensorFlow 1.15
    """
    module = tensorflow_versions.keras_loss_scales
    if module is None or hasattr(module._is_all_finite, "__wrapped__"):
        return
    module._is_all_finite = _agreed(module._is_all_finite)
    for kind in (module.LossScaleOptimizer, module.LossScaleOptimizerV3):
        kind.apply_gradients = _of_tables(kind.apply_gradients)


def _of_tables(stock: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(stock)
    def apply_gradients(self: Any, grads_and_vars: Any, *args: Any, **kwargs: Any) -> Any:
        pairs = list(grads_and_vars)
        before, _local.tables = getattr(_local, "tables", False), any(hasattr(one, "table") for _, one in pairs)
        try:
            return stock(self, pairs, *args, **kwargs)
        finally:
            _local.tables = before
    return apply_gradients


def _agreed(stock: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(stock)
    def is_all_finite(grads: Any) -> Any:
        mine, world = stock(grads), launch.current()
        if not getattr(_local, "tables", False) or (world is not None and world.size == 1):
            return mine
        return finite.all_finite([tf.where(mine, 0.0, float("nan"))])
    return is_all_finite

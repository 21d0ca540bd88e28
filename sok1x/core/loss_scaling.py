"""TensorFlow's own loss scaling on tables, `tf.train.experimental`'s and `tf.contrib.mixed_precision`'s, and with the
former Keras' of TensorFlow 1.15: all ranks take a step, or none does.

They look whether gradients are finite. Those of a table are another's on each rank: one rank would lower its loss scale
and skip a step that others take, and the replicas of dense variables would drift apart.
"""
import sys
from typing import Any, Callable, List

import numpy as np
import tensorflow.compat.v1 as tf

from sok1x.core import wrapping
from sok1x.graph_ops.bridge.tensorflow_versions import is_eager_outside, loss_scales
from sok1x.graph_ops.gradients import provenance
from sok1x.graph_ops.operations import finite

_CONTRIB = "tensorflow.contrib.mixed_precision.python.loss_scale_optimizer"
_DTYPES = (tf.float16, tf.float32, tf.float64)


def watch() -> None:
    """From now on they know of all ranks' gradients; of tf.contrib what has been imported by now.

    Example:
        >>> from sok1x.core import loss_scaling
        >>> loss_scaling.watch()
    """
    wrapping.wrap(loss_scales, "_is_all_finite", _on_all_ranks)
    contrib = sys.modules.get(_CONTRIB)
    if contrib is not None:
        wrapping.wrap(contrib.LossScaleOptimizer, "apply_gradients", _agreed_steps)


def _of_all_ranks(grads: List[Any]) -> bool:
    """Whether gradients have to do with other ranks."""
    if is_eager_outside() or provenance.ranks() == 1:
        return False
    found = [provenance.standing(gradient) for gradient in grads if gradient is not None]
    return any(each.exchanged or each.tables for each in found)


def _values(grads: List[Any]) -> List[tf.Tensor]:
    return [gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient
            for gradient in grads if gradient is not None]


def _on_all_ranks(stock: Callable[..., Any]) -> Callable[..., Any]:
    def is_all_finite(grads: Any) -> Any:
        grads = list(grads)
        if not _of_all_ranks(grads):
            return stock(grads)
        values = _values(grads)
        if any(value.dtype not in _DTYPES for value in values):
            values = [tf.where(stock(grads), tf.constant(0.0), tf.constant(np.nan, tf.float32))]
        return finite.all_finite(values)

    return is_all_finite


def _agreed_steps(stock: Callable[..., Any]) -> Callable[..., Any]:
    def apply_gradients(self: Any, grads_and_vars: Any, global_step: Any = None, name: Any = None) -> Any:
        pairs = list(grads_and_vars)
        grads = [gradient for gradient, _ in pairs]
        if not _of_all_ranks(grads):
            return stock(self, pairs, global_step, name)
        good = finite.all_finite(_values(grads))
        step = tf.cond(good, lambda: self._opt.apply_gradients(pairs, global_step, name), tf.no_op)
        return tf.group(step, self._loss_scale_manager.update_loss_scale(good))

    return apply_gradients

"""TensorFlow's own loss scaling on tables, `tf.train.experimental`'s and `tf.contrib.mixed_precision`'s, and with the
former Keras' of TensorFlow 1.15: all ranks take a step, or none does.

They look whether gradients are finite. Those of a table are another's on each rank: one rank would lower its loss scale
and skip a step that others take, and the replicas of dense variables would drift apart.
"""
import sys
from typing import Any, Callable, List

import numpy as np
import tensorflow.compat.v1 as tf

from sok1x.core.frameworks import wrapping
from sok1x.core.thread_scope import ThreadScope
from sok1x.graph_ops.bridge.tensorflow_versions import (
    V2,
    KerasLossScaleOptimizer,
    is_eager_outside,
    loss_scales,
    train_loss_scale_optimizer,
)
from sok1x.graph_ops.gradients import provenance, shard_gradients
from sok1x.graph_ops.operations import finite

_CONTRIB = "tensorflow.contrib.mixed_precision.python.loss_scale_optimizer"
_DTYPES = (tf.float16, tf.float32, tf.float64)
_averaging = ThreadScope()  # inside of a step whose optimizer averages


def watch() -> None:
    """From now on they know of all ranks' gradients.

    Example:
        >>> from sok1x.core.frameworks import loss_scaling
        >>> loss_scaling.watch()
    """
    wrapping.wrap(loss_scales, "_is_all_finite", _on_all_ranks)
    wrapping.wrap(train_loss_scale_optimizer.MixedPrecisionLossScaleOptimizer, "apply_gradients", _known_to_average)
    if KerasLossScaleOptimizer is not None:
        wrapping.wrap(KerasLossScaleOptimizer, "apply_gradients", _known_to_average)
    if not V2:  # contrib may be imported later, but before its optimizer has another one compute gradients
        wrapping.call_before(tf.train.Optimizer, "compute_gradients", _watch_contrib)


def _watch_contrib() -> None:
    contrib: Any = sys.modules.get(_CONTRIB)
    if contrib is not None:
        wrapping.wrap(contrib.LossScaleOptimizer, "apply_gradients", _agreed_steps)


def _known_to_average(stock: Callable[..., Any]) -> Callable[..., Any]:
    def apply_gradients(self: Any, *args: Any, **kwargs: Any) -> Any:
        with _averaging.entered(hasattr(self._optimizer, "_sok1x_averages")):
            return stock(self, *args, **kwargs)

    return apply_gradients


def _of_all_ranks(grads: List[Any]) -> bool:
    """Whether gradients have to do with other ranks, or are about to."""
    if is_eager_outside() or provenance.ranks() == 1:
        return False
    return bool(_averaging.value) or any(
        provenance.standing(gradient).tables for gradient in grads if gradient is not None)


def _values(grads: List[Any]) -> List[tf.Tensor]:
    return [shard_gradients.values_of(gradient) for gradient in grads if gradient is not None]


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
        with _averaging.entered(hasattr(self._opt, "_sok1x_averages")):
            if not _of_all_ranks(grads):
                return stock(self, pairs, global_step, name)
        good = finite.all_finite(_values(grads))
        step = tf.cond(good, lambda: self._opt.apply_gradients(pairs, global_step, name), tf.no_op)
        return tf.group(step, self._loss_scale_manager.update_loss_scale(good))

    return apply_gradients

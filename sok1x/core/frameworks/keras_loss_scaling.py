"""Keras' own LossScaleOptimizer (TensorFlow 2) on tables: all ranks take a step, or none does, also in graphs.

It looks whether its gradients are finite. Those of a table are another's on each rank, so the ranks agree on it: else
one would lower its loss scale and skip a step that others take. The one around Keras' newer optimizers is made for
eager execution and tf.function: `_step_of_graph` is its step in a plain tf.Graph.
"""
import contextlib
from typing import Any, Callable, List

import tensorflow.compat.v1 as tf

from sok1x.core.eagerly import function_marks
from sok1x.core.frameworks import wrapping
from sok1x.core.thread_scope import followed, following
from sok1x.graph_ops.bridge import tensorflow_versions
from sok1x.graph_ops.bridge.tensorflow_versions import keras_loss_scale, mirrored_strategy
from sok1x.graph_ops.gradients import shard_gradients
from sok1x.graph_ops.operations import finite

_agreeing = followed()


def watch() -> None:
    """From now on Keras' loss scaling knows of all ranks' gradients.

    Example:
        >>> from sok1x.core.frameworks import keras_loss_scaling
        >>> keras_loss_scaling.watch()  # nothing, in TensorFlow 1.15
    """
    if keras_loss_scale is None:
        return
    wrapping.wrap(keras_loss_scale, "_is_all_finite", _on_all_ranks)
    for kind in (keras_loss_scale.LossScaleOptimizer, keras_loss_scale.LossScaleOptimizerV3):
        wrapping.wrap(kind, "apply_gradients", _agreed_steps)
        wrapping.wrap(kind, "get_unscaled_gradients", _marks_kept)
    # In a mirrored strategy a step, its question and its branch have a thread each, of which one works at a time.
    wrapping.wrap(mirrored_strategy.distribute_lib.ReplicaContextBase, "merge_call", _merged)
    wrapping.wrap(mirrored_strategy.MirroredExtended, "_call_for_each_replica", _replicated)


def _merged(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Of what has another thread call a function, and waits for it; arguments have TensorFlow's names."""
    def merge_call(self: Any, merge_fn: Callable[..., Any], args: Any = (), kwargs: Any = None) -> Any:
        return stock(self, following(merge_fn), args, kwargs)

    return merge_call


def _replicated(stock: Callable[..., Any]) -> Callable[..., Any]:
    """As `_merged`, of what calls a function in a thread for each replica."""
    def call_for_each_replica(self: Any, fn: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        return stock(self, following(fn), args, kwargs)

    return call_for_each_replica


def _on_all_ranks(stock: Callable[..., Any]) -> Callable[..., Any]:
    def is_all_finite(grads: Any) -> Any:
        if not _agreeing.value:
            return stock(grads)
        return finite.all_finite([shard_gradients.values_of(gradient) for gradient in grads if gradient is not None])

    return is_all_finite


def _marks_kept(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Of what divides by the loss scale: in eager execution nothing else tells what the ranks have summed already."""
    def get_unscaled_gradients(self: Any, grads: Any) -> Any:
        grads = list(grads)
        unscaled = stock(self, grads)
        for before, after in zip(grads, unscaled):
            if before is not None:
                shard_gradients.keep_marks(*map(shard_gradients.values_of, (before, after)))
        return unscaled

    return get_unscaled_gradients


def _agreed_steps(stock: Callable[..., Any]) -> Callable[..., Any]:
    def apply_gradients(self: Any, grads_and_vars: Any, *args: Any, **kwargs: Any) -> Any:
        pairs = list(grads_and_vars)
        distributed = hasattr(self._optimizer, "_sok1x_averages")
        if not distributed and not any(hasattr(variable, "table") for _, variable in pairs):
            # Whether these are finite all ranks see alike, where they are of all; else each trains for itself.
            with function_marks.needs_no_others.entered():
                return stock(self, pairs, *args, **kwargs)
        with contextlib.ExitStack() as stack:
            if distributed:  # nothing is left to communicate in a step that may be skipped
                from sok1x.optimizers import distributed_optimizer  # which needs this module
                pairs = stack.enter_context(distributed_optimizer.prepared(self._optimizer, pairs))
            stack.enter_context(_agreeing.entered())
            if isinstance(self, keras_loss_scale.LossScaleOptimizerV3) and tensorflow_versions.in_plain_graph():
                return _step_of_graph(self, pairs)
            return stock(self, pairs, *args, **kwargs)

    return apply_gradients


def _step_of_graph(optimizer: Any, pairs: List[Any]) -> tf.Operation:
    pairs = list(tensorflow_versions.keras_optimizer_utils.filter_empty_gradients(pairs))
    optimizer.build([variable for _, variable in pairs])
    inner = optimizer.inner_optimizer
    inner.jit_compile = False  # as in newer_optimizers.py: nothing would run what XLA has compiled
    with tensorflow_versions.automatic_control_dependencies() as ordered:
        def take_step() -> tf.Tensor:
            return tf.identity(inner.apply_gradients(pairs, skip_gradients_aggregation=True))

        def skip_step() -> tf.Tensor:
            return tf.identity(inner.iterations.assign_add(1))

        if optimizer.dynamic:
            _, good = optimizer._loss_scale.update([gradient for gradient, _ in pairs])
            taken = tf.cond(good, take_step, skip_step)
        else:
            taken = take_step()
        return ordered.mark_as_return(taken).op

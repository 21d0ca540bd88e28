"""Steps of optimizers in branches of a graph: where their gradients are of all ranks, all ranks take them, or none.

A branch that each rank chooses by its own part of the gradients, as whether they are finite, is taken by some ranks and
not by others: replicas of dense variables would drift apart, and parts of tables stay behind.
"""
from typing import Any, Callable, List

import tensorflow.compat.v1 as tf

from sok1x.core import wrapping
from sok1x.graph_ops.bridge.tensorflow_versions import KERAS_OPTIMIZERS, is_eager_outside
from sok1x.graph_ops.gradients import provenance
from sok1x.graph_ops.operations import branches


def watch() -> None:
    """From now on optimizers of TensorFlow and Keras have the ranks compare what decides of such a step.

    Example:
        >>> from sok1x.optimizers import branched_steps
        >>> branched_steps.watch()
    """
    for kind in (tf.train.Optimizer, *KERAS_OPTIMIZERS):
        wrapping.wrap(kind, "apply_gradients", _compared)


def _compared(stock: Callable[..., Any]) -> Callable[..., Any]:
    def apply_gradients(self: Any, grads_and_vars: Any, *args: Any, **kwargs: Any) -> Any:
        if not _is_in_branch() or provenance.ranks() == 1:
            return stock(self, grads_and_vars, *args, **kwargs)
        pairs: List[Any] = list(grads_and_vars)
        for gradient, variable in pairs:
            if gradient is not None and _is_of_all_ranks(gradient, variable):
                branches.guard_step(variable.name)
                break
        return stock(self, pairs, *args, **kwargs)

    return apply_gradients


def _is_in_branch() -> bool:
    return not is_eager_outside() and tf.get_default_graph()._get_control_flow_context() is not None


def _is_of_all_ranks(gradient: Any, variable: Any) -> bool:
    return hasattr(variable, "table") or provenance.standing(gradient).exchanged

"""Steps of optimizers in branches of a graph: where their gradients are of all ranks, all ranks take them, or none.

A branch that each rank chooses by its own part of the gradients, as whether they are finite, is taken by some ranks and
not by others: replicas of dense variables would drift apart, and parts of tables stay behind. Eagerly, outside of a
tf.function, a branch is Python's own `if`, of which nothing is seen.
"""
from typing import Any, Callable, List, Optional

import tensorflow.compat.v1 as tf

from sok1x.core import wrapping
from sok1x.core.thread_scope import ThreadScope
from sok1x.graph_ops.bridge.tensorflow_versions import KERAS_OPTIMIZERS, cond_v2, is_eager_outside
from sok1x.graph_ops.gradients import provenance
from sok1x.graph_ops.operations import branches

_inside = ThreadScope()  # its value: a list, of steps in the branches that are being built as functions


def watch() -> None:
    """From now on optimizers of TensorFlow and Keras have the ranks compare what decides of such a step.

    Example:
        >>> from sok1x.optimizers import branched_steps
        >>> branched_steps.watch()
    """
    for kind in (tf.train.Optimizer, *KERAS_OPTIMIZERS):
        wrapping.wrap(kind, "apply_gradients", _compared)
    wrapping.wrap(cond_v2, "cond_v2", _guarding)


def _compared(stock: Callable[..., Any]) -> Callable[..., Any]:
    def apply_gradients(self: Any, grads_and_vars: Any, *args: Any, **kwargs: Any) -> Any:
        if not (_is_in_branch() or _inside.value is not None) or provenance.ranks() == 1:
            return stock(self, grads_and_vars, *args, **kwargs)
        pairs: List[Any] = list(grads_and_vars)
        for gradient, variable in pairs:
            if gradient is not None and _is_of_all_ranks(gradient, variable):
                if _is_in_branch():
                    branches.guard_step(variable.name)
                if _inside.value is not None:
                    _inside.value.append(variable.name)
                break
        return stock(self, pairs, *args, **kwargs)

    return apply_gradients


def _guarding(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Of TensorFlow's tf.cond whose branches are functions, as in a tf.function."""
    def cond(pred: Any, true_fn: Any, false_fn: Any, name: Optional[str] = "cond") -> Any:
        if not isinstance(pred, tf.Tensor) or provenance.ranks() == 1:
            return stock(pred, true_fn, false_fn, name)
        with tf.name_scope(name or "cond"):
            decides = tf.identity(pred, name="decides")  # a node of its own, which can be made to wait
        steps: List[str] = []
        with _inside.entered(steps):
            made = stock(decides, true_fn, false_fn, name)
        if steps:
            branches.guard_step_in_function(steps[0], decides.op)
            if _inside.value is not None:
                _inside.value.extend(steps)  # the branch around this one has them, too
        return made

    return cond


def _is_in_branch() -> bool:
    return not is_eager_outside() and tf.get_default_graph()._get_control_flow_context() is not None


def _is_of_all_ranks(gradient: Any, variable: Any) -> bool:
    return hasattr(variable, "table") or provenance.standing(gradient).exchanged

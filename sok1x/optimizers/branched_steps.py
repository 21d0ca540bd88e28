"""Steps of optimizers in branches of a graph: where their gradients are of all ranks, all ranks take them, or none.

A branch that each rank chooses by its own part of the gradients, as whether they are finite, is taken by some ranks and
not by others: replicas of dense variables would drift apart, and parts of tables stay behind. Eagerly, outside of a
tf.function, a branch is Python's own `if`, of which nothing is seen; nor is anything of loops that are functions.
"""
from typing import Any, Callable, List, Optional

import tensorflow.compat.v1 as tf

from sok1x.core.eagerly import function_marks
from sok1x.core.frameworks import wrapping
from sok1x.graph_ops.bridge.tensorflow_versions import KERAS_OPTIMIZERS, cond_v2, is_eager_outside
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
    wrapping.wrap(cond_v2, "cond_v2", _guarding)
    wrapping.wrap(cond_v2, "indexed_case", _guarding_case)


def _compared(stock: Callable[..., Any]) -> Callable[..., Any]:
    def apply_gradients(self: Any, grads_and_vars: Any, *args: Any, **kwargs: Any) -> Any:
        if tf.executing_eagerly() or provenance.ranks() == 1:
            return stock(self, grads_and_vars, *args, **kwargs)
        pairs: List[Any] = list(grads_and_vars)
        moved = [variable.name for gradient, variable in pairs if gradient is not None]
        # A function's body does not know what it is given: any step in it counts, and in branches that are functions.
        if moved:
            function_marks.note_step(moved[0])
        if _is_in_branch():
            of_all = next((variable.name for gradient, variable in pairs
                           if gradient is not None and _is_of_all_ranks(gradient, variable)), None)
            if of_all is not None:
                branches.guard_step(of_all)
        return stock(self, pairs, *args, **kwargs)

    return apply_gradients


def _guarding(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Of TensorFlow's tf.cond whose branches are functions, as in a tf.function."""
    def cond(pred: Any, true_fn: Any, false_fn: Any, name: Optional[str] = "cond") -> Any:
        return _guarded(pred, name or "cond", "tf.cond", lambda decides: stock(decides, true_fn, false_fn, name))

    return cond


def _guarding_case(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Likewise of tf.switch_case."""
    def case(branch_index: Any, branch_fns: Any, name: str = "indexed_case", *args: Any, **kwargs: Any) -> Any:
        return _guarded(branch_index, name, "tf.switch_case",
                        lambda decides: stock(decides, branch_fns, name, *args, **kwargs))

    return case


def _guarded(decision: Any, name: str, what: str, build: Callable[[Any], Any]) -> Any:
    if tf.executing_eagerly() or not tf.is_tensor(decision) or provenance.ranks() == 1:
        return build(decision)
    with tf.name_scope(name):
        decides = tf.identity(decision, name="decides")  # a node of its own, which can be made to wait
    steps: List[str] = []
    needs_others = not function_marks.needs_no_others.value
    with function_marks.branches.entered(steps), function_marks.needs_no_others.entered(False):
        made = build(decides)
    if steps and needs_others:
        branches.guard_step_in_function(steps[0], decides.op, what)
    if steps:
        function_marks.note_step(steps[0])  # the branch around this one has it, too
    return made


def _is_in_branch() -> bool:
    return not is_eager_outside() and tf.get_default_graph()._get_control_flow_context() is not None


def _is_of_all_ranks(gradient: Any, variable: Any) -> bool:
    return hasattr(variable, "table") or provenance.standing(gradient).exchanged

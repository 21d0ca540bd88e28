"""Branches and loops with ops of ours in them: all ranks must go the same way.

An op that communicates waits for all ranks. In a branch of tf.cond that some ranks do not take they would never come,
or come later and be taken for this step's. So the first such op in a tf.cond or tf.while_loop brings a small op with
it, beside what decides (outside of the branches; inside the loop, once for every turn), by which the ranks compare
their predicates before anything in a branch begins.
"""
import weakref
from typing import NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

from sok1x.graph_ops.bridge import library, op_types
from sok1x.graph_ops.bridge.errors import INVALID_ARGUMENT, CallError
from sok1x.graph_ops.bridge.registry import Operation, register
from sok1x.graph_ops.bridge.tensorflow_versions import control_flow_util, tf_ops

_STEP = ("the step of '{}' is inside, by gradients of all ranks; sok.tf.keras.mixed_precision.LossScaleOptimizer has "
         "all of them skip a step in which any has gradients that are not finite")
_CONDITION = {"what": "tf.cond", "leave": "take the op out of the branch"}
_guarded = weakref.WeakKeyDictionary()  # graph -> names of the ops that decide, and have a guard


class AgreeConfig(NamedTuple):
    """Attributes:
      label: what must be equal on all ranks.
      what: 'tf.cond', 'tf.switch_case' or 'tf.while_loop'. context: its name. inside: what is in it, and why all ranks
        must run that.
      leave: what to do without it."""

    label: str
    what: str
    context: str
    inside: str
    leave: str


@register
class _Agree(Operation):
    """Host input: the predicate, bool [], or the branch's number, int32 []. No output; fails on all ranks alike where
    these differ."""

    name = "operations.branches.agree"
    Config = AgreeConfig
    communicates = True

    def prepare(self, request, config, world):
        return np.array([request.host_inputs[0].numpy().reshape(())], np.int64)

    def run(self, request, config, world, headers):
        if headers.min() == headers.max():
            return
        values = [(int(value), [int(rank) for rank in np.flatnonzero(headers[:, 0] == value)])
                  for value in np.unique(headers[:, 0])[::-1]]
        if config.what == "tf.switch_case":
            got = "branch " + " and ".join("{} on ranks {}".format(*each) for each in values)
        else:
            got = "the predicate " + " and ".join("{} on ranks {}".format(bool(one), ranks) for one, ranks in values)
        raise CallError(INVALID_ARGUMENT, (
            "{} '{}': got {}, expected one value on all ranks in one step: {}. Decide by something that is equal on "
            "all ranks, as the step's number or a value that was averaged over them, or {}").format(
                config.what, config.context, got, config.inside, config.leave), agreed=True)


def guard(op):
    """Makes sure that all ranks run, or leave out, the op that is about to be built in the current context.

    Args:
      op: the op's name, for the message.
    """
    _guard("op '{}' is inside, and it exchanges data between all ranks".format(op))


def guard_step(variable):
    """The same of an optimizer's step by gradients that the ranks have exchanged: where one took it and another did
    not, replicas of dense variables would drift apart, and parts of tables stay behind.

    Args:
      variable: the name of one that it moves, for the message.
    """
    _guard(_STEP.format(variable))


def guard_step_in_function(variable, decides, what):
    """The same where branches are functions (control flow v2).

    Args:
      decides: the op whose first input is the predicate, or the branch's number, by which that goes to the tf.cond.
      what: 'tf.cond' or 'tf.switch_case'.
    """
    predicate = decides.inputs[0]
    if _is_agreed(predicate.op):
        return
    name = decides.name.rpartition("/")[0]
    with tf_ops.colocate_with(None, ignore_existing=True), tf.device("/device:CPU:0"):
        decides._add_control_input(_agree(_STEP.format(variable), predicate, name, dict(_CONDITION, what=what)))


def _guard(inside):
    if tf.executing_eagerly():
        return
    graph = tf.get_default_graph()
    deciding, outer, words = _deciding(graph._get_control_flow_context())
    if not deciding or _is_agreed(deciding[0].inputs[0].op):
        return
    known = _guarded.setdefault(graph, set())
    if deciding[0].name in known:
        return
    known.add(deciding[0].name)
    name = deciding[0].name.rpartition("/")[0]
    # Out of the branch, of what optimizers colocate, and of any GPU: a predicate is compared on the host.
    with tf.control_dependencies(None), tf_ops.name_scope(name + "/" if name else None), \
            tf_ops.colocate_with(None, ignore_existing=True), tf.device("/device:CPU:0"):
        if outer is not None:
            outer.Enter()
        try:
            agree = _agree(inside, deciding[0].inputs[0], name, words)
        finally:
            if outer is not None:
                outer.Exit()
        for op in deciding:
            op._add_control_input(agree)


def _agree(inside, predicate, name, words):
    """The op by which the ranks compare a predicate, a tensor, of the context of that name."""
    return library.call(
        "operations.branches.agree", AgreeConfig("{} '{}'".format(words["what"], name), context=name, inside=inside,
                                                 **words),
        [], [], [], host_inputs=[predicate], name="agree")


def _is_agreed(predicate):
    """Whether all ranks have a predicate, an op, because they have exchanged it."""
    while predicate.type == "Identity":
        predicate = predicate.inputs[0].op
    return op_types.is_ours(predicate) and predicate.get_attr("function") == b"operations.finite.all_finite"


def _deciding(context):
    """What decides whether ops of a context run: (ops, the first of which has the predicate for its first input; the
    context that the predicate is compared in, or None; words for the message). No ops where nothing does."""
    while context is not None and context.IsXLAContext():
        context = context.outer_context
    if context is not None and context.IsCondContext():
        # Whatever enters a branch is switched by `pred`; what has no input waits for the pivot's switch.
        return [context.pred.op, context.pivot.op.inputs[0].op], context.outer_context, _CONDITION
    # The loop of a gradient turns as often as the one that it differentiates.
    if context is not None and context.IsWhileContext() and context.grad_state is None and _decides(context):
        return [context.pivot.op], context, {"what": "tf.while_loop", "leave": "take the op out of the loop"}
    return [], None, {}


def _decides(loop):
    """Whether a loop's condition is built by now, and can differ from turn to turn."""
    return loop.pivot is not None and not control_flow_util.IsLoopConstantEnter(loop.pivot.op.inputs[0].op)

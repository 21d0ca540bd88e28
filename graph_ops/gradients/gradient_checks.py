"""What must not become of a table's gradient on several ranks, looked for in the graph when it is about to be applied.

The gradient of a rank's rows is complete, and its row numbers mean something on that rank alone. Some things that are
right for a variable of which every rank has a replica are wrong here, and nothing would say so when they run: Horovod's
exchange of the gradient, clipping by a norm that is computed from it, which is another on each rank, and taking away
its mean over rows.
"""
import numpy as np
import tensorflow.compat.v1 as tf

from sok1x.graph_ops.bridge import op_types
from sok1x.graph_ops.gradients import provenance, shard_gradients

# Ops after which a gradient is still one, as far as Horovod and TensorFlow's ways before it have them.
_ENTERING = ("Switch", "RefSwitch", "Enter", "RefEnter")  # a branch or a loop
_READING = ("Identity", "ReadVariableOp")
_PASSING = _ENTERING + _READING + (
    "Cast", "Merge", "Exit", "NextIteration", "ConcatV2", "Unique", "UnsortedSegmentSum", "StopGradient", "Reshape",
    "Pack", "IdentityN", "Mul", "RealDiv", "AddN", "Add", "AddV2", "Square", "Abs")
_ADDING = ("Assign", "AssignAdd", "AssignVariableOp", "AssignAddVariableOp")  # into a variable that accumulates
_REDUCING = ("L2Loss", "Sum", "Mean", "Max", "Min", "EuclideanNorm")
_PRODUCTS = ("Mul", "RealDiv", "Div", "DivNoNan")
_SUMS = ("Sub", "Add", "AddV2", "Minimum", "Maximum")
_GRADIENT, _NORM, _OVER_ROWS = range(3)  # what a tensor is on the way: a number, or one for each column, of all rows


def check(graph, table_name):
    """Raises where a gradient of a table, on several ranks, has been exchanged, or clipped by this rank's norm.

    Called when an optimizer has the table's variable in hand.

    Raises:
      ValueError: with what to use instead.
    """
    gradients = shard_gradients.of_table(graph, table_name)
    if not gradients or provenance.ranks() == 1:
        return
    for values, indices in gradients:
        op = _exchanged(values if indices is None else indices)
        if op is not None:
            raise ValueError((
                "embedding table '{}': got its gradient exchanged by Horovod (op '{}'), expected it as tf.gradients "
                "gives it: it is summed over the ranks already, and complete on the rank that owns the rows, where "
                "another rank's row numbers mean other keys. Use sok1x.DistributedOptimizer in place of "
                "hvd.DistributedOptimizer: it averages the gradients of dense variables, over Horovod if that is "
                "initialized, and leaves tables alone; and no hvd.allreduce for a table's gradient").format(
                    table_name, op.name))
        op, made = _changing_by_rows(values)
        if made == _OVER_ROWS:
            raise ValueError((
                "embedding table '{}': got a gradient changed (op '{}') by a mean, sum or largest value over this "
                "rank's rows, expected rows that are changed one by one: on each rank it is another, and on none "
                "that of the whole table").format(table_name, op.name))
        if op is not None:
            raise ValueError((
                "embedding table '{}': got a gradient scaled (op '{}') by a norm of this rank's rows, as "
                "tf.clip_by_global_norm, tf.clip_by_norm or Keras' clipnorm do: it is another on each rank. Use "
                "sok1x.clip_by_global_norm, whose norm is that of all ranks' rows, or sok1x.DistributedOptimizer with "
                "clip_norm=..., or around an optimizer with clipnorm").format(table_name, op.name))


def _exchanged(start):
    """Horovod's op that gets a gradient, given its row numbers, or the values of all rows; or None."""
    waiting, seen = list(start.consumers()), set()
    while waiting:
        op = waiting.pop()
        if op in seen:
            continue
        seen.add(op)
        if op.type.startswith("Horovod"):
            return op
        if op.type in _ADDING:
            variable = op.inputs[0]
            while variable.op.type in _ENTERING:
                variable = variable.op.inputs[0]
            waiting += [reader for reader in variable.consumers() if reader.type in _ENTERING + _READING]
        elif op.type in _PASSING:
            waiting += [consumer for output in op.outputs for consumer in output.consumers()]
    return None


def _changing_by_rows(values):
    """(the op that changes a gradient by what is computed from these values alone on this rank, what that is); or None,
    and that these values are but a gradient."""
    waiting, seen = [(values, _GRADIENT)], set()
    while waiting:
        tensor, made = waiting.pop()
        for op in tensor.consumers():
            if made != _GRADIENT and op.type in (_PRODUCTS if made == _NORM else _PRODUCTS + _SUMS) and any(
                    _is_gradient(each) for each in op.inputs if each is not tensor):
                return op, made
            makes = made or _reduced(op)
            if (op, made) in seen or provenance.is_new_gradient(op) or provenance.is_exchange(op) \
                    or op_types.is_ours(op) or not (makes or op.type in _PASSING):
                continue
            seen.add((op, made))
            waiting += [(output, makes) for output in op.outputs]
    return None, _GRADIENT


def _reduced(op):
    """What an op makes of a gradient's rows: a norm, one number for each column, or neither."""
    if op.type not in _REDUCING:
        return _GRADIENT
    if provenance.is_number(op.outputs[0]):
        return _NORM
    axes = tf.get_static_value(op.inputs[1]) if len(op.inputs) > 1 else None
    of_rows = axes is not None and any(axis in (0, -(op.inputs[0].shape.rank or 0)) for axis in np.ravel(axes))
    return _OVER_ROWS if of_rows else _GRADIENT


def _is_gradient(tensor):
    """Whether a tensor is a gradient, and not a number: of a variable of one element it is not known."""
    if provenance.is_number(tensor) or tensor.dtype == tf.resource:
        return False
    found = provenance.standing(tensor)
    return found.exchanged or any(provenance.is_new_gradient(op) for op in found.own)

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
        op = _scaling_by_norm(values)
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


def check_applied(gradient, table_name):
    """Raises where a table's gradient, on several ranks, has in it what is computed over this rank's rows.

    Called with what an optimizer is about to apply to the table.

    Args:
      gradient: a tensor or tf.IndexedSlices.

    Raises:
      ValueError: so it has.
    """
    if provenance.ranks() == 1:
        return
    start = shard_gradients.values_of(gradient)
    own = {values.name for values, _ in shard_gradients.of_table(start.graph, table_name)}
    waiting, seen = [(start, None)], set()
    while waiting:
        tensor, reduced = waiting.pop()
        if (tensor.name, reduced is None) in seen:
            continue
        seen.add((tensor.name, reduced is None))
        if tensor.name in own:
            if reduced is None:
                continue
            raise ValueError((
                "embedding table '{}': got a gradient changed by a mean, sum or largest value over this rank's rows "
                "(op '{}'), expected rows that are changed one by one: on each rank it is another, and on none that of "
                "the whole table").format(table_name, reduced.name))
        op = tensor.op
        if not (provenance.is_new_gradient(op) or provenance.is_exchange(op) or op_types.is_ours(op)):
            reduced = reduced or (op if _is_over_rows(op) else None)
            waiting += [(each, reduced) for each in op.inputs if each.dtype != tf.resource]


def _scaling_by_norm(values):
    """The op that scales a gradient by a number computed from these values alone on this rank; or None."""
    waiting, seen = [(values, False)], set()
    while waiting:
        tensor, is_norm = waiting.pop()
        for op in tensor.consumers():
            if is_norm and op.type in _PRODUCTS and any(_is_gradient(each) for each in op.inputs if each is not tensor):
                return op
            reduces = op.type in _REDUCING and provenance.is_number(op.outputs[0])
            if (op, is_norm) in seen or provenance.is_new_gradient(op) or provenance.is_exchange(op) \
                    or op_types.is_ours(op) or not (is_norm or reduces or op.type in _PASSING):
                continue
            seen.add((op, is_norm))
            waiting += [(output, is_norm or reduces) for output in op.outputs]
    return None


def _is_over_rows(op):
    """Whether an op makes of a table's rows one number for each column."""
    if op.type not in _REDUCING or len(op.inputs) < 2 or provenance.is_number(op.outputs[0]):
        return False
    axes = tf.get_static_value(op.inputs[1])
    # Of another rank it is something else that has been made of them: several gradients in a stack.
    return op.inputs[0].shape.rank == 2 and axes is not None and any(axis in (0, -2) for axis in np.ravel(axes))


def _is_gradient(tensor):
    """Whether a tensor is a gradient, and not a number: of a variable of one element it is not known."""
    if provenance.is_number(tensor) or tensor.dtype == tf.resource:
        return False
    found = provenance.standing(tensor)
    return found.exchanged or any(provenance.is_new_gradient(op) for op in found.own)

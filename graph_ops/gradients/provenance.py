"""What a gradient in the graph is made of: values that the ranks have exchanged already, or this rank's own.

An optimizer of several ranks must know which gradients are averaged: one that is not leaves the replicas of a dense
variable to drift apart, and one that is summed twice is too large. That a tensor depends on an averaged gradient says
nothing: where an inner step of training is part of a loss, the gradient of that loss depends on the inner step's. What
tells them apart is who made the tensor. Going back from it, what TensorFlow has made to differentiate an op begins a
new gradient, of this rank alone; an exchange ends the search; and only what keeps a gradient a gradient (clipping,
scaling, casts, ...) may lie between it and the exchange.
"""
import collections
import os
import sys

import tensorflow.compat.v1 as tf

from sok1x import launch
from sok1x.graph_ops.bridge import op_types
from sok1x.graph_ops.bridge.tensorflow_versions import is_eager_outside
from sok1x.graph_ops.gradients import keeping, shard_gradients
from sok1x.launch import launcher
from sok1x.launch.errors import LaunchError

Standing = collections.namedtuple("Standing", "exchanged own tables scaled_by_table")
Standing.__doc__ = """What a gradient is made of.

exchanged: whether values that ranks have exchanged are in it, other than as a factor. own: ops of this rank alone that
are in it, also as a factor. tables: those of them that make the gradient of a table's rows, other than as a factor;
scaled_by_table: likewise, as a factor."""

# Functions of ours whose outputs all ranks have.
_EXCHANGES = tuple("operations.collectives." + name for name in ("all_reduce", "broadcast", "squared_norms"))
_HOROVOD = ("HorovodAllreduce", "HorovodGroupedAllreduce", "HorovodAllgather", "HorovodGroupedAllgather",
            "HorovodBroadcast")
# A large tensor times or against a number is as it was, scaled or cut.
_SCALING = ("Mul", "RealDiv", "Div", "DivNoNan", "Minimum", "Maximum")
# The first input is the gradient, the others say what to do with it.
_FIRST = ("Reshape", "ExpandDims", "Squeeze", "Transpose", "GatherV2", "StridedSlice", "Slice", "Switch", "RefSwitch",
          "SplitV", "UnsortedSegmentSum", "CheckNumerics")
_KEEPING = _SCALING + _FIRST + (
    "Identity", "IdentityN", "StopGradient", "PreventGradient", "Cast", "Neg", "Sign", "AddN", "Add", "AddV2", "Sub",
    "AccumulateNV2", "Pack", "Unpack", "Concat", "ConcatV2", "Split", "Merge", "RefMerge", "Enter", "Exit",
    "NextIteration", "Select", "SelectV2", "ReadVariableOp", "ZerosLike", "OnesLike", "Fill")
_DEPTH = 6  # of products of numbers that are looked into
_GRADIENT, _FACTOR, _BENEATH = range(3)  # what a tensor is on the way: beneath is what lies under an unknown op


def ranks():
    """How many ranks this process is one of, as far as that is known when a graph is built; 1 if nothing says so."""
    world = launch.current()
    if world is not None:
        return world.size
    try:
        started = launcher.started_ranks()
    except LaunchError:  # several ranks that Init will refuse
        return int(os.environ.get("HOROVOD_SIZE", 2))
    if started > 1:
        return started
    horovod = sys.modules.get("horovod.tensorflow")
    return horovod.size() if horovod is not None and horovod.is_initialized() else 1


def is_exchange(op):
    """Whether an op's outputs are equal on all ranks because they have exchanged them."""
    if op_types.is_ours(op):
        return op.get_attr("function").decode() in _EXCHANGES
    return op.type in _HOROVOD


def is_new_gradient(op):
    """Whether TensorFlow has made an op to differentiate another one.

    What it has put behind such, for the gradients of an op with several inputs to wait for each other, makes nothing.
    """
    return op._original_op is not None and not (op.type == "Identity" and op.control_inputs)


def is_number(tensor):
    """Whether a tensor has one element, as the graph shows."""
    return tensor.shape.num_elements() == 1


def scaled_by(number):
    """The `Standing` of a gradient's factor: the gradients of this rank alone that are in it."""
    return standing(number, _FACTOR)


def standing(gradient, kind=_GRADIENT, depth=0):
    """The `Standing` of a tensor or tf.IndexedSlices. depth: of calls inside each other."""
    start = shard_gradients.values_of(gradient)
    if is_eager_outside():
        return _by_marks(start, kind)
    graph = start.graph
    known = shard_gradients.names(graph)
    trainable = {variable.op.name for variable in graph.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES)
                 if not hasattr(variable, "table")}
    exchanged, own, tables, scaled_by_table = False, [], [], []
    waiting, seen = [(start, kind)], set()
    while waiting:
        tensor, kind = waiting.pop()
        if (tensor.name, kind) in seen:
            continue
        seen.add((tensor.name, kind))
        op = tensor.op
        if tensor.name in known:
            own.append(op)
            (scaled_by_table if kind == _FACTOR else tables).append(op)
        elif is_new_gradient(op):
            own.append(op)
        elif is_exchange(op):
            exchanged = exchanged or kind != _FACTOR
        elif op.type in keeping.VARIABLES:
            if kind == _GRADIENT and op.name not in trainable:
                waiting += [(value, _GRADIENT) for value in keeping.added_to(op)]
        elif kind == _GRADIENT and keeping.takes(op):
            waiting += [(value, _GRADIENT) for value in keeping.brought_to(tensor)]
        elif kind == _GRADIENT and op.type in _KEEPING:
            waiting += _inputs(op, depth)
        elif kind == _GRADIENT and op.inputs and _is_of_exchanges_alone(op, known):
            exchanged = True
        elif op.inputs:
            if kind == _GRADIENT:  # something else is made of it than a gradient
                own.append(op)
            waiting += [(each, _BENEATH if kind == _GRADIENT else kind) for each in op.inputs]
        elif op.type not in ("Const", "HorovodSize") and not (
                op.type.startswith("Placeholder") and (is_number(tensor) or tensor.shape.rank is None)):
            own.append(op)
    return Standing(exchanged, own, tables, scaled_by_table)


def _is_of_exchanges_alone(op, gradients):
    """Whether an op is computed of what ranks have exchanged and of constants, so that all ranks have it, whatever it
    makes of them: a norm along an axis, a mean that is taken away. gradients: names of tables' gradients."""
    waiting, seen, found = [op], set(), False
    while waiting:
        each = waiting.pop()
        if each.name in seen:
            continue
        seen.add(each.name)
        if is_exchange(each):
            found = True
        elif (is_new_gradient(each) or each.op_def.is_stateful or each.type in keeping.VARIABLES
              or any(output.name in gradients for output in each.outputs)
              or not each.inputs and each.type not in ("Const", "HorovodSize")):
            return False
        else:
            waiting += [tensor.op for tensor in each.inputs]
    return found


def _by_marks(tensor, kind):
    """The `Standing` of a tensor of eager execution, or of a function's body: of a tape no graph tells what it made."""
    if shard_gradients.is_marked_exchanged(tensor):
        return Standing(True, [], [], [])
    table = shard_gradients.eager_table_of(tensor)
    if table is None and hasattr(tensor, "graph") and tensor.name in shard_gradients.names(tensor.graph):
        table = tensor.name
    found = [] if table is None else [table]
    return Standing(False, found or ["a tape"], [] if kind == _FACTOR else found, found if kind == _FACTOR else [])


def _inputs(op, depth):
    """(input, what it is) of an op that keeps a gradient a gradient."""
    inputs = list(op.inputs)
    if op.type in _FIRST:
        return [(inputs[0], _GRADIENT)]
    if op.type in ("Select", "SelectV2"):
        return [(inputs[0], _FACTOR)] + [(each, _GRADIENT) for each in inputs[1:]]
    if op.type in ("ZerosLike", "OnesLike"):  # nothing of the value is left
        return []
    if op.type == "Fill":
        return [(inputs[1], _GRADIENT)]
    if op.type in _SCALING and len({is_number(each) for each in inputs}) == 2:
        return [(each, _FACTOR if is_number(each) else _GRADIENT) for each in inputs]
    if op.type in _SCALING and depth < _DEPTH and all(is_number(each) for each in inputs):
        # The gradient of a variable of one element looks like a factor: it is the one that comes from an exchange.
        for each in inputs:
            found = standing(each, depth=depth + 1)
            if found.exchanged and not found.own:
                return [(other, _GRADIENT if other is each else _FACTOR) for other in inputs]
    return [(each, _GRADIENT) for each in inputs]

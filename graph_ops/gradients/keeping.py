"""What keeps gradients for another moment: variables, accumulators, queues, staging areas; and what is brought there.

All of it is read off the whole graph: which of several values a queue gives, only a run would tell, so all count.
"""

VARIABLES = ("VarHandleOp", "VariableV2", "Variable")
# What takes sums out of an accumulator, as of tf.train.SyncReplicasOptimizer, and what brings gradients there: with the
# accumulator as its first input, and the gradient, or its values, as the input of that number.
_TAKING = ("AccumulatorTakeGradient", "SparseAccumulatorTakeGradient", "ResourceAccumulatorTakeGradient")
_BRINGING = {"AccumulatorApplyGradient": 2, "SparseAccumulatorApplyGradient": 3, "ResourceAccumulatorApplyGradient": 2}
# Each output is one of the inputs behind the queue's handle.
_DEQUEUEING = ("QueueDequeueV2", "QueueDequeueManyV2", "QueueDequeueUpToV2")
_ENQUEUEING = ("QueueEnqueueV2", "QueueEnqueueManyV2")
# A staging area is what ops share that have its name: what gets -> what puts.
_AREAS = {"Unstage": "Stage", "StagePeek": "Stage",
          **{prefix + name: prefix + "MapStage" for prefix in ("", "Ordered")
             for name in ("MapUnstage", "MapUnstageNoKey", "MapPeek")}}
_KEY_AND_PLACES = 2  # inputs of MapStage before its values


def takes(op):
    """Whether an op's outputs are what others have brought to where it takes them from."""
    return op.type in _TAKING or op.type in _DEQUEUEING or op.type in _AREAS


def brought_to(tensor):
    """The tensors that an output of such an op may be, or be the sum of: of gradients that are slices the values.

    Args:
        tensor: an output of an op that `takes`.

    Returns:
        A list of tensors.
    """
    op = tensor.op
    if op.type in _TAKING:
        return [consumer.inputs[_BRINGING[consumer.type]] for consumer in op.inputs[0].consumers()
                if consumer.type in _BRINGING]
    if op.type in _DEQUEUEING:
        return [consumer.inputs[1 + tensor.value_index] for consumer in op.inputs[0].consumers()
                if consumer.type in _ENQUEUEING]
    puts = [each for each in op.graph.get_operations() if each.type == _AREAS[op.type] and _area(each) == _area(op)]
    if _AREAS[op.type] == "Stage":
        return [put.inputs[tensor.value_index] for put in puts]
    return [each for put in puts for each in list(put.inputs)[_KEY_AND_PLACES:]]  # any of them, in any order


def added_to(variable):
    """What is added to a variable anywhere in the graph: gradients, if they are accumulated in it.

    Args:
        variable: the op that makes it, or its handle.

    Returns:
        A list of tensors.
    """
    consumers = variable.outputs[0].consumers()
    sums = [consumer.inputs[1] for consumer in consumers if consumer.type in ("Assign", "AssignVariableOp")
            and consumer.inputs[1].op.type in ("Add", "AddV2", "AddN")]
    return [consumer.inputs[1] for consumer in consumers if consumer.type in ("AssignAdd", "AssignAddVariableOp")] + [
        value for value in sums if _reads(value.op, variable)]  # kept.assign(0.9 * kept + gradient)


def _area(op):
    return op.get_attr("container"), op.get_attr("shared_name") or op.name


def _reads(op, variable, depth=3):
    """Whether an op's inputs have a variable's value, at most so many ops back."""
    return any(each.op is variable or (depth > 0 and _reads(each.op, variable, depth - 1)) for each in op.inputs)

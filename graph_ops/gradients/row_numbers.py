"""Where row numbers in a graph come from: a lookup's gradient of the same run, or what keeps them between runs."""
import collections

from sok1x.graph_ops.bridge import op_types
from sok1x.graph_ops.gradients import shard_gradients

Origin = collections.namedtuple("Origin", "tables kept unknown whole way")
Origin.__doc__ = """Of a tensor of row numbers, or of a gradient's values.

tables: names of the tables of whose gradients it is made. kept: an op that has it from another session.run, a variable,
a placeholder, an accumulator, a queue or a staging area; else None. unknown: an op that does not say where its output
comes from; else None. whole: whether all rows in turn are among them, as where TensorFlow adds the zeros of a branch
that is not taken to a lookup's gradient. way: the tensors that have been looked at."""

# Ops whose outputs are among what the first input has, and those with more such inputs: which ones.
_FIRST = frozenset((
    "Identity", "Cast", "Reshape", "Unique", "UniqueV2", "StopGradient", "PreventGradient", "Squeeze", "ExpandDims",
    "StridedSlice", "Slice", "GatherV2", "Gather", "Switch", "RefSwitch", "Enter", "RefEnter", "Exit", "NextIteration",
    "DynamicPartition", "SplitV", "Unpack", "ReadVariableOp", "PlaceholderWithDefault"))
_MORE = {"ConcatV2": slice(0, -1), "Concat": slice(1, None), "Split": slice(1, None), "Select": slice(1, None),
         "Merge": slice(None), "RefMerge": slice(None), "Pack": slice(None), "IdentityN": slice(None)}
_HOLDING = b"operations.pinned_rows.hold"  # our op whose output is its first input
_SCALING = frozenset(("Mul", "RealDiv", "Div", "DivNoNan", "Minimum", "Maximum"))
_KEEPING = frozenset(("VarHandleOp", "VariableV2", "Variable", "Placeholder", "PlaceholderV2", "QueueDequeueV2",
                      "QueueDequeueManyV2", "QueueDequeueUpToV2", "AccumulatorTakeGradient",
                      "ResourceAccumulatorTakeGradient", "SparseAccumulatorTakeGradient", "Unstage", "StagePeek",
                      "MapUnstage", "MapUnstageNoKey", "MapPeek", "OrderedMapUnstage", "OrderedMapUnstageNoKey",
                      "OrderedMapPeek"))


def origin(tensor, values=False):
    """The `Origin` of a tensor of a tf.Graph; values: of a gradient's values, which may be scaled by numbers."""
    names = shard_gradients.places(tensor.graph)
    waiting, way, tables, kept, unknown, whole = [tensor], {}, set(), None, None, False
    while waiting:
        each = waiting.pop()
        if each.name in way:
            continue
        way[each.name] = each
        op = each.op
        if each.name in names:
            tables.add(names[each.name])
        elif op.type in _KEEPING:
            kept = kept or op
        elif op.type in _FIRST or _holds(op):
            waiting.append(op.inputs[0])
        elif op.type in _MORE:
            waiting += list(op.inputs)[_MORE[op.type]]
        elif values and op.type in _SCALING:
            large = [one for one in op.inputs if one.shape.rank != 0]
            waiting += large if len(large) == 1 else []
        elif op.type == "Range":
            whole = True
        else:
            unknown = unknown or op
    return Origin(tables, kept, unknown, whole, list(way.values()))


def are_all_of(tensor, table_name):
    """Whether a tensor is row numbers of a table's lookups' gradients, of one or of several, and of nothing else."""
    if not hasattr(tensor, "graph"):
        return shard_gradients.distinct_of(tensor) == table_name
    names, waiting, seen = shard_gradients.row_numbers_of(tensor.graph, table_name), [tensor], set()
    while waiting:
        each = waiting.pop()
        if each.name in seen or each.name in names:
            continue
        seen.add(each.name)
        if each.op.type == "Identity" or _holds(each.op):
            waiting.append(each.op.inputs[0])
        elif each.op.type == "ConcatV2":
            waiting += list(each.op.inputs)[:-1]
        else:
            return False
    return True


def _holds(op):
    return op_types.is_ours(op) and op.get_attr("function") == _HOLDING


def are_of(tensor, table_name):
    """Whether a tensor is row numbers of a table's gradient, as an optimizer has them: no keys, that is."""
    if not hasattr(tensor, "graph"):  # eager
        return shard_gradients.distinct_of(tensor) == table_name
    return table_name in origin(tensor).tables

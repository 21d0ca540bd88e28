"""What a `tf.train.Saver` holds: tables, and all else."""
import itertools
from typing import Any, Dict, Iterator, List, Optional, Set, Tuple

import tensorflow.compat.v1 as tf

from sok1x.checkpoint.session.tables import TableState, are_all_of, tables_of
from sok1x.core.embedding_variable import EmbeddingVariable
from sok1x.graph_ops.bridge.tensorflow_versions import Variable


class Held:
    """The variables of a Saver, told apart.

    Args:
        var_list: as TensorFlow takes it: a list, or a dict of names; as `with_keys` returns it.
        graph: their graph.

    Attributes:
        tables: those of which it holds the rows, with those of their slots that it holds.
        dense: all that belongs to no shard, a list or a dict as `var_list` is.
        complaint: why the tables cannot be saved by all ranks together, or None.
    """

    def __init__(self, var_list: Any, graph: tf.Graph) -> None:
        self._names = held = {id(variable): name for name, variable in _items(var_list)}
        self.tables: List[TableState] = []
        self.complaint: Any = None
        shards: Set[int] = set()
        for table in tables_of(graph):
            here = [variable for variable in table.variables() if id(variable) in held]
            shards.update(id(variable) for variable in here)
            if id(table.variable) in held:
                self.tables.append(TableState(table.variable, {
                    part: variable for part, variable in table.parts.items() if id(variable) in held}))
            elif here:
                self.complaint = "it holds '{}' but not the rows of its table, '{}'".format(here[0].op.name, table.name)
            for variable in here:
                if held[id(variable)] != variable.op.name and self.complaint is None:
                    self.complaint = "it gives '{}' another name, '{}'".format(variable.op.name, held[id(variable)])
        self.any = bool(shards)
        self.dense: Any = [variable for _, variable in _items(var_list) if id(variable) not in shards]
        if isinstance(var_list, dict):
            self.dense = {name: variable for name, variable in var_list.items() if id(variable) not in shards}

    def name_of(self, variable: Any) -> str:
        """What a variable is called in the Saver's checkpoints; one that it does not hold, by itself.

        Args:
            variable: the variable.
        """
        return self._names.get(id(variable), variable.op.name)

    def all_of(self, graph: tf.Graph) -> bool:
        """Whether there is nothing in a graph now that it does not hold.

        Args:
            graph: the graph.
        """
        return are_all_of(graph, itertools.chain(
            self.dense.values() if isinstance(self.dense, dict) else self.dense,
            *(table.variables() for table in self.tables)))


def with_keys(var_list: Any) -> Any:
    """A Saver's `var_list` with the keys and stamps of those tables whose rows it holds: rows alone mean nothing.

    A tensor that reads a variable of a table is that variable, as it is to TensorFlow.
    """
    var_list = _without_reads(var_list)
    known = {id(variable) for _, variable in _items(var_list)}
    missing: Dict[str, Any] = {}
    for name, table in _items(var_list):
        if isinstance(table, EmbeddingVariable):
            for variable in list(table.index) + list(table.forgetting.values()) + [table.stamps, table.steps]:
                if id(variable) not in known:
                    missing[name + variable.op.name[len(table.op.name):]] = variable
    if not missing:
        return var_list
    return dict(var_list, **missing) if isinstance(var_list, dict) else list(var_list) + list(missing.values())


def _without_reads(var_list: Any) -> Any:
    """`var_list` with the variables of tables themselves in place of tensors that read them.

    TensorFlow's `op_list_to_dict` makes such tensors, and so `MovingAverageOptimizer.swapping_saver` has nothing else.
    """
    values = list(var_list.values() if isinstance(var_list, dict) else var_list)
    handles = [_handle_read_by(value) for value in values]
    read: Dict[tf.Operation, Any] = {}
    for graph in {handle.graph for handle in handles if handle is not None}:
        for table in tables_of(graph):
            # A table's number of steps is equal on all ranks, so it is not in the shard, and yet one of its variables.
            read.update((variable.op, variable) for variable in table.variables() + [table.variable.steps])
    if not any(handle in read for handle in handles):
        return var_list
    found = [read.get(handle, value) for handle, value in zip(handles, values)]
    return dict(zip(var_list, found)) if isinstance(var_list, dict) else found


def _handle_read_by(value: Any) -> Optional[tf.Operation]:
    """The op of the handle of the variable that a tensor reads; None where it does not, or is no tensor of a graph."""
    if not isinstance(value, tf.Tensor) or not hasattr(value, "graph") or value.op.type != "ReadVariableOp":
        return None
    handle = value.op.inputs[0].op
    while handle.type == "Identity":
        handle = handle.inputs[0].op
    return handle


def _items(var_list: Any) -> Iterator[Tuple[str, Any]]:
    """(name in the checkpoint, variable) for each entry."""
    if isinstance(var_list, dict):
        yield from var_list.items()
        return
    for variable in var_list:
        yield (variable.op.name if isinstance(variable, Variable) else ""), variable

"""What a graph's state is made of: tables with what has a value for each of their rows, and everything else."""
import itertools
from typing import Any, Collection, Dict, Iterable, List, NamedTuple

import tensorflow.compat.v1 as tf

from sok1x.checkpoint.files import shard_names
from sok1x.core.eagerly import eager
from sok1x.core.embedding_variable import EmbeddingVariable
from sok1x.core.frameworks import slots
from sok1x.core.graph_keys import GraphKeys
from sok1x.core.tables.shard_variable import ShardVariable
from sok1x.graph_ops.bridge.tensorflow_versions import PartitionedVariable

_FOUND = "_sok1x_tables_found"  # the attribute of a graph: (its variables then, {table's name: what it had})


class TableState(NamedTuple):
    """A table, and its variables [V, ...] besides the rows: {part's name: variable}."""

    variable: EmbeddingVariable
    parts: Dict[str, ShardVariable]

    @property
    def name(self) -> str:
        """The table's name."""
        return str(self.variable.table.name)

    def variables(self) -> List[tf.Variable]:
        """All that belongs to this rank's shard: it is in the shard files, not in TensorFlow's checkpoint."""
        forgetting = [variable for name, variable in self.variable.forgetting.items() if name not in self.parts]
        return [self.variable] + list(self.variable.index) + forgetting + list(self.parts.values())

    def slots_besides(self, names: Collection[str]) -> List[ShardVariable]:
        """Optimizers' slots of the table, but for those of these names."""
        return [made for part, made in self.parts.items()
                if part.startswith(shard_names.SLOT) and made.op.name not in names]


def tables_of(graph: tf.Graph) -> List[TableState]:
    """The tables of a graph, in the order in which they were made, with their optimizers' slots."""
    tables = [TableState(variable, dict({shard_names.STAMPS: variable.stamps}, **{
                  name: variable.forgetting[name] for name in shard_names.SCORES if name in variable.forgetting}))
              for variable in eager.collected(graph, GraphKeys.GLOBAL_EMBEDDING_VARIABLES)
              if isinstance(variable, EmbeddingVariable)]  # not one that came with a MetaGraph
    known = {variable.op.name for table in tables for variable in table.variables()}
    by_name = {table.name: table for table in tables}
    owners = slots.Tables(table.variable for table in tables)
    for variable in eager.collected(graph, tf.GraphKeys.GLOBAL_VARIABLES):
        if not isinstance(variable, ShardVariable) or variable.op.name in known:
            continue
        shard = owners.owner(variable)
        # Scalars of a table or its optimizer are equal on all ranks: TensorFlow's checkpoint has them.
        if shard is not None and slots.has_rows_of(variable, shard):
            by_name[shard.table.name].parts[shard_names.SLOT + variable.op.name] = variable
    return tables


def state_of(variable: EmbeddingVariable) -> TableState:
    """A table's. A graph's tables are looked through once for all that are asked for before variables are made."""
    graph = variable.graph
    if not variable._in_graph_mode:  # a graph that lives on would keep eager tables
        return next(table for table in tables_of(graph) if table.variable is variable)
    variables = [each for collection in (GraphKeys.GLOBAL_EMBEDDING_VARIABLES, tf.GraphKeys.GLOBAL_VARIABLES)
                 for each in graph.get_collection_ref(collection)]
    known: Any = getattr(graph, _FOUND, None)
    if known is None or len(known[0]) != len(variables) or any(
            one is not other for one, other in zip(known[0], variables)):
        known = variables, {table.name: table for table in tables_of(graph)}
        setattr(graph, _FOUND, known)
    return known[1][str(variable.table.name)]


def let_leave(session: tf.Session, tables: Iterable[EmbeddingVariable]) -> None:
    """Has rows leave that are not to be saved; this rank's alone."""
    leaving = [table.leaves_before_save for table in tables if table.leaves_before_save is not None]
    if leaving:
        session.run(leaving)


def dense_of(graph: tf.Graph, tables: List[TableState]) -> List[Any]:
    """All else that TensorFlow would save: variables and saveable objects."""
    in_shards = {variable.op.name for table in tables for variable in table.variables()}
    return [saveable for collection in (tf.GraphKeys.GLOBAL_VARIABLES, tf.GraphKeys.SAVEABLE_OBJECTS)
            for saveable in eager.collected(graph, collection) if saveable.op.name not in in_shards]


def all_of(graph: tf.Graph, tables: List[TableState]) -> List[Any]:
    """What TensorFlow would save: variables, those of tables' shards too, and saveable objects."""
    return list(itertools.chain(dense_of(graph, tables), *(table.variables() for table in tables)))


def are_all_of(graph: tf.Graph, variables: Iterable[Any]) -> bool:
    """Whether there is nothing in a graph now that is not among these, of which some may be variables in parts."""
    held = {id(part) for variable in variables
            for part in (variable if isinstance(variable, (list, tuple, PartitionedVariable)) else [variable])}
    return all(id(variable) in held for variable in all_of(graph, tables_of(graph)))

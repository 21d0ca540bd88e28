"""What lies beside a table's rows, as variables: its index, what they begin with, and what forgets or is cached."""
from typing import Any, Dict, List, Optional, Sequence

from sok1x.core.eagerly import eager
from sok1x.core.options import cached_wholes
from sok1x.core.tables.shard_variable import ShardVariable
from sok1x.graph_ops.stores import beside, cache, initial
from sok1x.graph_ops.stores.forgetting import VARIABLES
from sok1x.graph_ops.stores.table import Table

# All that a table NAME may have beside its rows, as NAME/...: what kind it is says which.
NAMES = ("index", "count", "stamps", "steps", beside.START, *VARIABLES, *cache.VARIABLES)


class StartVariable(ShardVariable):
    """The rows with which those of a table that grows begin, where they are given: each rank has its own.

    Checkpoints that all ranks save of a graph have rank 0's, for whoever serves the model; they restore none, for
    no rank's are another's. Those of `sok.CheckpointManager` in eager execution have none: the program makes its
    own. A `tf.train.Saver` on one rank treats them as any variable.

    Args:
        **options: as for `tf.Variable`.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> with tf.Graph().as_default():
        ...     sok.DynamicVariable(dimension=2, initializer=[[1.0, 2.0], [3.0, 4.0]]).start.shape.as_list()
        [2, 2]
    """


def index_of(table: Table) -> List[ShardVariable]:
    """Makes the variables of the index, in the open scope.

    Args:
        table: the description.

    Returns:
        [index int64 [C, 2], count int64 []]; empty for a table without a hash table.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> from sok1x.core.tables import table_parts
        >>> with tf.Graph().as_default():
        ...     shard = sok.EmbeddingVariable(rows=8, dim=4, use_hashtable=False)
        ...     table_parts.index_of(shard.table)
        []
    """
    if not table.hashed:
        return []
    values = (("index", initial.initial_index, (None, 2)), ("count", initial.initial_count, ()))
    return [cached_wholes.belongs(ShardVariable(initial_value=lambda value=value: value(table), trainable=False,
                                                name=name, **_shape(table, shape)), table)
            for name, value, shape in values]


def forgetting_of(table: Table) -> Dict[str, ShardVariable]:
    """Makes what the table has besides where it forgets, or has a cache, in the open scope.

    Args:
        table: the description.

    Returns:
        {name: variable}: see `graph_ops.stores.forgetful_store` and `cached_store`.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> from sok1x.core.tables import table_parts
        >>> with tf.Graph().as_default():
        ...     table_parts.forgetting_of(sok.EmbeddingVariable(rows=8, dim=4).table)
        {}
    """
    made: Dict[str, ShardVariable] = {}
    forgetting = table.forgetting
    for name in VARIABLES if forgetting is not None else ():
        shape = None if forgetting is None else forgetting.shape_of(name, table.static_rows)
        if shape is not None:
            # Another number of keys may have been remembered where a table is restored from: then that is.
            open_shape = (None, 2) if name == "evicted" else shape
            made[name] = ShardVariable(
                initial_value=lambda name=name, shape=shape: initial.initial_zeros(table, name, shape),
                trainable=False, name=name, **_shape(table, open_shape))
    for name in cache.VARIABLES if table.cache is not None else ():
        shape = cache.Cache.shape_of(name, table.static_rows)
        made[name] = ShardVariable(
            initial_value=lambda name=name, shape=shape: initial.initial_index(table) if name == "every" else
            initial.initial_zeros(table, name, shape), trainable=False, name=name, **_shape(table, shape))
    for variable in made.values():
        cached_wholes.belongs(variable, table)
    return made


def _shape(table: Table, shape: Sequence[Optional[int]]) -> Dict[str, Any]:
    """Arguments of a variable: of a table that grows an eager one would keep the shape that it begins with."""
    return eager.shape(*shape) if table.grows else {}

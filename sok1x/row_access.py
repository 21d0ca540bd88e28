"""Rows of a table by their keys: this rank's all taken out, and some overwritten."""
from typing import Any, Optional

import tensorflow.compat.v1 as tf

from sok1x import incremental
from sok1x.checkpoint.session import restored_sessions
from sok1x.core.eagerly import eager
from sok1x.core.options import given_tables
from sok1x.core.tables import sessions
from sok1x.graph_ops.operations import assign_rows

__all__ = ["assign", "export"]

_EVERY_ROW = -1  # a step before all others


def export(variable: Any, session: Optional[tf.Session] = None) -> Any:
    """This rank's keys and rows.

    No rank waits for another. While the graph may grow, and without a session, this makes ops to be run later; in a
    finalized graph, as inside hooks, it runs ops that every table has had from the start.

    Args:
        variable: a `sok.Variable`, a layer, or its embedding variable.
        session: where to run at once. In a finalized graph by default the default session, else the session that
            `sok.InitHook` has seen last.

    Returns:
        (keys [n], values [n, D]), on the CPU: tensors, or NumPy arrays where it is run at once. Keys are int64 (of a
        layer's table, its key dtype), values of the rows' dtype, in the order of this rank's rows.

    Raises:
        TypeError: it is no table of ours.
        ValueError: the session is of another graph.
        RuntimeError: the graph is finalized and there is no session.
        sok1x.checkpoint.errors.CheckpointError: in a hook, on several ranks, before the session's hooks have restored
            its tables; on one they do first.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> sok.init()
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     items = sok.Variable([[1.0, 2.0], [3.0, 4.0]], name="items")
        ...     exported = sok.export(items)
        ...     _ = session.run(tf.global_variables_initializer())
        ...     keys, values = session.run(exported)
        >>> keys.tolist(), values.tolist()
        ([0, 1], [[1.0, 2.0], [3.0, 4.0]])
    """
    variable = given_tables.table("sok1x.export: variable", variable)
    eager.refuse_in_function("sok1x.export")
    if session is not None or variable.graph.finalized:
        session = sessions.session_of("sok1x.export", variable.graph, session)
        restored_sessions.complete_alone(session, "sok1x.export")
        return incremental.incremental_dump(variable, _EVERY_ROW, session)
    keys, values = incremental.incremental_dump(variable, _EVERY_ROW)
    with eager.at(variable), tf.device("/cpu:0"):
        return tf.identity(keys, name="keys"), tf.identity(values, name="values")


def assign(variable: Any, keys: Any, values: Any) -> tf.Operation:
    """An op that overwrites rows, by key.

    Each rank writes the rows of its own keys, and passes over those of others: so all ranks may be given the same. Of
    a `sok.Variable` no rank waits for another. In a layer's table with a hash table new keys are inserted, as in a
    lookup, and all ranks run the op together. Rows that are assigned count as changed for `sok.incremental_dump`.

    Args:
        variable: a `sok.Variable`, a layer, or its embedding variable.
        keys: int32 or int64 [n]; of a key that comes several times the last row counts.
        values: [n, D], of numbers; cast to the rows' dtype.

    Returns:
        The operation, to be made before the graph is finalized.

    Raises:
        TypeError: it is no table of ours, or keys are no integers.
        ValueError: the shapes do not fit, or the graph is finalized.
        tf.errors.InvalidArgumentError: (when run) a key is outside the table; nothing has been changed.
        tf.errors.ResourceExhaustedError: (when run) a shard is full; nothing has been changed, on any rank.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> sok.init()
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     items = sok.Variable(shape=[3, 2], initializer="zeros", name="items")
        ...     assigned = sok.assign(items, [2, 0], [[5.0, 6.0], [1.0, 2.0]])
        ...     _ = session.run(tf.global_variables_initializer())
        ...     session.run(assigned)
        ...     session.run(items).tolist()
        [[1.0, 2.0], [0.0, 0.0], [5.0, 6.0]]
    """
    variable = given_tables.table("sok1x.assign: variable", variable)
    if variable.graph.finalized:
        raise ValueError("sok1x.assign: variable: got '{}' in a finalized graph, expected a graph that may grow; make "
                         "the op before the session is created".format(variable.table.name))
    table = variable.table
    with eager.at(variable), tf.name_scope("assign"):
        keys, values = tf.convert_to_tensor(keys), tf.convert_to_tensor(values)
        if keys.dtype not in (tf.int32, tf.int64):
            raise TypeError("sok1x.assign: keys: got dtype {}, expected int32 or int64".format(keys.dtype.name))
        if not keys.shape.is_compatible_with([None]) or not values.shape.is_compatible_with([None, table.dim]) \
                or not keys.shape[:1].is_compatible_with(values.shape[:1]):
            raise ValueError("sok1x.assign: got keys of shape {} and values of shape {} for '{}', expected [n] and "
                             "[n, {}]".format(keys.shape, values.shape, variable.table.name, table.dim))
        if keys.dtype == tf.int32:
            keys = tf.cast(tf.cast(keys, table.key_dtype), tf.int64)  # as lookups have them
        eager.note_in_function(variable)
        return assign_rows.assign(variable.table_variables, keys, tf.cast(values, table.dtype))

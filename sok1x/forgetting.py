"""Keys that leave tables that forget: taken together with a lookup, or asked for by whoever follows the training."""
from typing import Any, Optional, Tuple

import tensorflow.compat.v1 as tf

from sok1x import incremental
from sok1x.core.eagerly import eager
from sok1x.core.embedding_variable import EmbeddingVariable
from sok1x.core.options import given_tables, key_types
from sok1x.core.tables import sessions
from sok1x.graph_ops.operations import evictions

__all__ = ["evicted_keys", "sparse_read_and_evict"]


def sparse_read_and_evict(variable: Any, ids: Any) -> Tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Reads rows on this rank, and gives out the keys that leave for them, with their trained rows.

    New ids get rows, in this rank's shard alone, whoever owns them elsewhere. Where they need more than `max_capacity`
    rows, others leave, as in any lookup: here they are given out, each once, and are gone from the table. What leaves
    in other lookups is not given out. There is no gradient.

    Args:
        variable: a `sok.DynamicVariable` that forgets, or a layer whose table does, or its embedding variable.
        ids: int32 or int64, of any shape [...].

    Returns:
        (vectors float32 [..., D], evicted keys of the table's key dtype [m], their rows float32 [m, D]).

    Raises:
        TypeError: it is no table that forgets, or ids are no integers.
        tf.errors.ResourceExhaustedError: (when run) the ids need more rows than may leave; no row has changed.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> sok.init()
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     items = sok.DynamicVariable(dimension=2, initializer="13", init_capacity=2, max_capacity=2)
        ...     ids = tf.placeholder(tf.int64, [None])
        ...     read = sok.sparse_read_and_evict(items, ids)
        ...     _ = session.run(tf.global_variables_initializer())
        ...     _ = session.run(read, {ids: [7, 8]})
        ...     vectors, keys, rows = session.run(read, {ids: [9]})
        >>> vectors.tolist(), keys.tolist(), rows.tolist()
        ([[13.0, 13.0]], [7], [[13.0, 13.0]])
    """
    table = _forgets("sparse_read_and_evict", variable)
    keys = tf.convert_to_tensor(ids)
    if not keys.dtype.is_integer:
        raise TypeError("sok1x.sparse_read_and_evict: ids: got dtype {}, expected integers".format(keys.dtype.name))
    key_dtype = tf.as_dtype(table.table.key_dtype)
    with tf.name_scope("sparse_read_and_evict"):
        vectors, evicted, rows = evictions.read_and_evict(
            table.table_variables, tf.reshape(key_types.keys_of(keys, table.table), [-1]))
        shape = tf.concat([tf.shape(keys), [table.table.dim]], 0)
        vectors = tf.reshape(vectors, shape)
        vectors.set_shape(keys.shape.concatenate([table.table.dim]))
        return vectors, tf.cast(evicted, key_dtype), rows


def evicted_keys(variable: Any, since_step: Any, session: Optional[tf.Session] = None) -> Any:
    """The keys that have left this rank's shard after a step and have no row now, beside `sok.incremental_dump`.

    Whoever follows the training drops these, and takes over what `sok.incremental_dump` has of the same step. A table
    remembers as many keys as its `remember_evicted` says, the last ones, 16 bytes each; whether that was enough is
    told. Where it was not, as with 0 since a step before keys have left last, a whole dump is needed:
    `sok.incremental_dump` since step -1. After a checkpoint is restored, or `sok.load` has loaded the table, the
    second result is False for steps up to the one that the table is at then, at which keys may have come and left
    before it was saved, or after. So it is up to the step that others may have from the same process: which the table
    had reached before in the same session, or in any session of the graph training by its global step, or at which
    this or `sok.incremental_dump` was asked there. A new process cannot know that others had followed later steps than
    those of the checkpoint. An initializer that is run again begins another table, which this does not tell: whoever
    followed needs a whole dump. Keys have left at the step at which a row inserted there would have changed, as
    `sok.incremental_dump` says.

    Args:
        variable: a table that forgets, likewise.
        since_step: the last step that does not count, as for `sok.incremental_dump`: an integer; while the graph may
            grow also a scalar tensor of shape [], int32 or int64.
        session: where to run at once, as for `sok.incremental_dump`.

    Returns:
        (keys int64 [n], ascending, bool [] whether these are all), on the CPU: NumPy arrays in a finalized graph or if
        a session is given, else tensors.

    Raises:
        TypeError: it is no table that forgets, or since_step is no integer.
        ValueError: since_step is no scalar, or the session is of another graph.
        RuntimeError: the graph is finalized and there is no session.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> sok.init()
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     items = sok.DynamicVariable(dimension=2, initializer="13", max_capacity=2, remember_evicted=100)
        ...     ids = tf.placeholder(tf.int64, [None])
        ...     rows = sok.all2all_dense_embedding(items, ids)
        ...     _ = session.run(tf.global_variables_initializer())
        ...     for batch in ([7, 8], [8, 9], [9, 10], [8]):
        ...         _ = session.run(rows, {ids: batch})
        ...     keys, all_of_them = sok.evicted_keys(items, 0, session)
        >>> keys.tolist(), bool(all_of_them)
        ([7, 9], True)
    """
    table = _forgets("evicted_keys", variable)
    if session is None and not table.graph.finalized and not eager.is_on():
        with table.graph.as_default():
            return evictions.since(table.table_variables, incremental.since_tensor("evicted_keys", since_step))
    step = incremental.since_number("evicted_keys", since_step)
    assert table.evicted is not None
    since, keys, complete = table.evicted
    return sessions.session_of("sok1x.evicted_keys", table.graph, session).run((keys, complete), {since: step})


def _forgets(function: str, variable: Any) -> EmbeddingVariable:
    what = "sok1x.{}: variable".format(function)
    expected = "a table that forgets: a sok1x.DynamicVariable with max_capacity, or a layer with evict_strategy"
    table = given_tables.table(what, variable, expected)
    if table.table.forgetting is None:
        raise TypeError("{}: got '{}', which keeps all rows, expected {}".format(what, table.table.name, expected))
    return table

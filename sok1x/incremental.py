"""The rows of tables that changed since a step: what a server needs to follow the training."""
from typing import Any, List, Optional

import numpy as np
import tensorflow.compat.v1 as tf

from sok1x.checkpoint.session import restored_sessions
from sok1x.core.eagerly import eager
from sok1x.core.embedding_variable import EmbeddingVariable
from sok1x.core.options import given_tables
from sok1x.core.options.given_numbers import integer
from sok1x.core.tables import sessions
from sok1x.graph_ops.stores import stamps


def incremental_dump(variables: Any, since_step: Any, session: Optional[tf.Session] = None) -> Any:
    """The keys and rows of this rank's shards that changed after a step.

    Steps are the graph's global step, if it had one when the gradients were built: a change that takes the global step
    from g to g + 1 happened at step g + 1, and changed since s means at a step above s. So whoever dumps after each
    step k, 2 k, ... passes the global step of the dump before. Without a global step they are the table's own: the
    `session.run` calls that trained it, which `variable.steps` counts. Step -1 gives every row in use.

    A row has changed where a lookup's gradient reached it (also in a step that loss scaling then skips), where a lookup
    inserted it, and where a method of the variable assigned it. After an optimizer that moves all rows at each step,
    such as `tf.train.AdamOptimizer`, all have. What `tf.train.Saver` restores changed when it had changed before it was
    saved. Not seen is a gradient made by hand that an optimizer of TensorFlow's applies. And where a run moves the
    global step by other means than `global_step=` of an optimizer, and has no gradient of a table, rows that lookups
    insert count as of the step after the last one that had either, or that a `tf.train.Saver`, a `CheckpointManager`
    or a hook has restored.

    While the graph may grow, this makes ops to be run later. In a finalized graph, as inside hooks, it runs ops that
    every embedding variable has had from the start. No rank waits for another: each dumps what it owns.

    Memory, in bytes, while it runs: 12 for each row in use, and the result, 8 + 4 D for each changed row.

    Args:
        variables: an `EmbeddingVariable`, a layer, or a list or tuple of these, of one graph.
        since_step: the last step that does not count: an integer; while the graph may grow also a scalar tensor of
            shape [], int32 or int64.
        session: where to run at once. In a finalized graph by default the default session, else the session that
            `sok.InitHook` has seen last.

    Returns:
        (keys, values): keys [n], in the order of their rows, of the table's key dtype, int64, uint32 or int32; values
        [n, D], of the rows' dtype. For a list or tuple of variables, a list of such pairs. NumPy arrays in a finalized
        graph or if a session is given, else tensors.

    Raises:
        TypeError: variables are no embedding variables, or since_step is no integer.
        ValueError: variables of several graphs, since_step is no scalar, or the session is of another graph.
        RuntimeError: the graph is finalized and there is no session.
        sok1x.checkpoint.errors.CheckpointError: in a hook, on several ranks, before the session's hooks have restored
            its tables; on one they do first.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     layer = sok.All2AllDenseEmbedding(
        ...         max_vocabulary_size_per_gpu=16, embedding_vec_size=4, slot_num=1, nnz_per_slot=1)
        ...     keys = tf.placeholder(tf.int64, [None, 1, 1])
        ...     loss = tf.reduce_sum(layer(keys))
        ...     global_step = tf.train.get_or_create_global_step()
        ...     step = tf.train.GradientDescentOptimizer(0.1).minimize(loss, global_step)
        ...     _ = session.run(sok.Init(global_batch_size=2))
        ...     _ = session.run(tf.global_variables_initializer())
        ...     _ = session.run(step, {keys: [[[7]], [[9]]]})
        ...     _ = session.run(step, {keys: [[[9]], [[5]]]})
        ...     changed, values = sok.incremental_dump(layer.embedding_variable, 1, session)
        >>> changed.tolist(), values.shape
        ([9, 5], (2, 4))
    """
    several = isinstance(variables, (list, tuple))
    checked = given_tables.tables("sok1x.incremental_dump: variables", variables)
    graph = checked[0].graph if checked else tf.get_default_graph()
    if session is None and not graph.finalized and not eager.is_on():
        with graph.as_default():
            since = since_tensor("incremental_dump", since_step)
            dumps = [tuple(stamps.changed(variable.table_variables, since, name="incremental_dump"))
                     for variable in checked]
    else:
        since, session = since_number("incremental_dump", since_step), sessions.session_of(
            "sok1x.incremental_dump", graph, session)
        restored_sessions.complete_alone(session, "sok1x.incremental_dump")
        dumps = _run(checked, since, session)
    return dumps if several else dumps[0]


def since_tensor(function: str, since_step: Any) -> tf.Tensor:
    """The last step that does not count, int64 [], for an op; function: for messages, as for the next two."""
    since = tf.convert_to_tensor(since_step)
    if not since.dtype.is_integer:
        raise TypeError("sok1x.{}: since_step: got {!r}, expected an integer".format(function, since_step))
    if not since.shape.is_compatible_with([]):
        raise ValueError("sok1x.{}: since_step: got shape {}, expected a scalar".format(function, since.shape))
    return tf.cast(since, tf.int64)


def since_number(function: str, since_step: Any) -> int:
    """The same as a number, to be fed."""
    if isinstance(since_step, np.ndarray) and since_step.shape == ():
        since_step = since_step[()]
    return integer("sok1x.{}: since_step".format(function), since_step,
                   expected="an integer, for the ops run at once")


def _run(variables: List[EmbeddingVariable], since: int, session: tf.Session) -> List[Any]:
    ops = [variable.changed for variable in variables]
    return session.run([(keys, values) for _, keys, values in ops], {placeholder: since for placeholder, _, _ in ops})

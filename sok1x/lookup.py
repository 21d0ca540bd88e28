"""SOK 2.x's lookups: any number of variables in one call."""
from typing import Any, List, Optional, Union

import tensorflow.compat.v1 as tf

from sok1x.core.eagerly import eager
from sok1x.core.embedding_variable import EmbeddingVariable
from sok1x.core.frameworks import keras3
from sok1x.core.options import given_tables, key_types
from sok1x.embeddings import precision
from sok1x.embeddings.autograph import graph_code
from sok1x.embeddings.lookup_training import looked_up
from sok1x.graph_ops.bridge.tensorflow_versions import resource_variable_ops
from sok1x.graph_ops.operations import embedding
from sok1x.sparse_ids import Bags, bags_of, expect_no_symbol, lying_as, weights_of

__all__ = ["all2all_dense_embedding", "lookup_sparse"]

COMBINERS = ("sum", "mean", "sqrtn")
_NO_LIMIT = 2 ** 31 - 1  # more ids than a batch can have


@graph_code
def lookup_sparse(params: Any, sp_ids: Any, sp_weights: Any = None, combiners: Any = None,
                  use_low_frequency_filter: bool = False, *, dtype: Any = None,
                  training: Any = None) -> Union[tf.Tensor, List[tf.Tensor]]:
    """Looks ids up in tables that are spread over the ranks, and combines the rows of each sample.

    It is `tf.nn.embedding_lookup_sparse` on the whole tables. Tables may differ in everything: where their rows are,
    D, kind. Batches may differ between ranks and steps, and be empty. It makes no variables, so it may be called when
    the initializers have run. Lookups of one step are exchanged together, whether one call makes them or several.

    Gradients are summed over the ranks, so the loss should already divide by the global batch. There are gradients to
    the tables and, where they are asked for, to the weights.

    Args:
        params: a `sok.Variable`, a layer, its embedding variable, or a list or tuple of T of these.
        sp_ids: ids of each, a tf.RaggedTensor or tf.SparseTensor, int32 or int64, of shape [B, n]: a sample's ids in a
            row, in any number.
        sp_weights: None, or floats of the same form for each table's ids, in the same places and order as these in
            `sp_ids`. An element of a list may be None.
        combiners: 'sum', 'mean' or 'sqrtn', or one for each table; 'mean' by default. A mean with weights is divided by
            the sum of the weights, 'sqrtn' by the root of the sum of their squares, each 1 if there are none. Where
            that is zero, what comes out is as `tf.nn.embedding_lookup_sparse` of the TensorFlow in use has it: of 2.x
            zeros, and so are the gradients to rows and weights; on 1.15 neither is finite.
        use_low_frequency_filter: True: new ids get rows with the probability that their tables have as `filter_ratio`;
            one that does not reads its initial row, gets no update, and is drawn again in the next lookup.
        dtype: as a layer's: None, float32, float16 or a Keras policy. Under one that computes in float16 so is what
            comes out, and what travels between the ranks.
        training: whether new ids get rows, of tables that grow: a bool or a scalar bool tensor. None: False where the
            layer or model of Keras around the call has been told so, as in `evaluate` and `predict`, or an Estimator
            evaluates or predicts; else True.

    Returns:
        [B, D], zeros for a sample without ids; for a list or tuple of tables a list of T such. float32, or float16
        under such a policy.

    Raises:
        TypeError: params are no tables of ours or not float32, or ids, weights or `training` are of another type or
            dtype; ids that are symbolic, of a tf.keras.Input, outside a layer's call.
        ValueError: lists of different lengths, an unknown combiner, ids or weights of the wrong rank, a filter for a
            table without `filter_ratio`, or a table of another graph.
        tf.errors.InvalidArgumentError: (when run) an id is outside the table, with table, sample and range; or weights
            lie in other places than ids.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> sok.init()
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     items = sok.Variable([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], name="items")
        ...     users = sok.Variable(shape=[100, 4], initializer="ones", name="users")
        ...     bought = tf.ragged.constant([[0, 2], [], [1]], dtype=tf.int64)
        ...     who = tf.ragged.constant([[7], [8], [9]], dtype=tf.int64)
        ...     items_of, users_of = sok.lookup_sparse([items, users], [bought, who], combiners=["sum", "mean"])
        ...     _ = session.run(tf.global_variables_initializer())
        ...     session.run(items_of).tolist(), users_of.shape.as_list()
        ([[6.0, 8.0], [0.0, 0.0], [3.0, 4.0]], [3, 4])
    """
    several = isinstance(params, (list, tuple))
    tables = list(params) if several else [params]
    ids = _for_each("sp_ids", sp_ids, several, len(tables))
    weights = [None] * len(tables) if sp_weights is None else _for_each("sp_weights", sp_weights, several, len(tables))
    if combiners is None or isinstance(combiners, str):
        combiners = ["mean" if combiners is None else combiners] * len(tables)
    tables = [checked("lookup_sparse", table) for table in tables]
    for table in tables if use_low_frequency_filter else ():
        _check_filter(table)
    made = [_one(_computed("lookup_sparse", dtype), bool(use_low_frequency_filter), training, *arguments)
            for arguments in zip(tables, ids, weights, _for_each("combiners", combiners, True, len(tables)))]
    return made if several else made[0]


@graph_code
def all2all_dense_embedding(param: Any, indices: Any, *, dtype: Any = None, training: Any = None) -> tf.Tensor:
    """Looks up one row for each id, in order.

    Args:
        param: a `sok.Variable`, a layer, or its embedding variable.
        indices: ids, int32 or int64 [n], or of any other shape [...].
        dtype: as for `sok.lookup_sparse`.
        training: likewise.

    Returns:
        [n, D], or [..., D]: float32, or float16 as for `sok.lookup_sparse`.

    Raises:
        TypeError: param is no table of ours or not float32, the ids are of another dtype, or symbolic as there, or
            `training` is of another type.
        ValueError: a table of another graph.
        tf.errors.InvalidArgumentError: (when run) an id is outside the table, with table, position and range.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> sok.init()
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     items = sok.Variable([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], name="items")
        ...     rows = sok.all2all_dense_embedding(items, tf.constant([2, 0, 2]))
        ...     _ = session.run(tf.global_variables_initializer())
        ...     session.run(rows).tolist()
        [[5.0, 6.0], [1.0, 2.0], [5.0, 6.0]]
    """
    table = checked("all2all_dense_embedding", param, "param", "embedding_lookup")
    if isinstance(indices, (tf.SparseTensor, tf.RaggedTensor)):
        raise TypeError("sok1x.all2all_dense_embedding: indices: got a {}, expected a dense tensor of ids; use "
                        "sok1x.lookup_sparse".format(type(indices).__name__))
    expect_no_symbol("all2all_dense_embedding", "indices", table.table.name, indices)
    ids = tf.convert_to_tensor(indices)
    if ids.dtype not in (tf.int32, tf.int64):
        raise TypeError("sok1x.all2all_dense_embedding: indices: got ids of dtype {}, expected int32 or int64".format(
            ids.dtype.name))
    _read(table)
    return _told(table, looked_up("all2all_dense_embedding", training, ids, lambda trains: embedding.lookup_dense(
        table.table_variables, _keys(table, ids), trains, _computed("all2all_dense_embedding", dtype), name="lookup")))


def _one(dtype: str, filtered: bool, training: Any, table: EmbeddingVariable, ids: Any, weights: Any,
         combiner: Any) -> tf.Tensor:
    """[B, D] of one table."""
    if combiner not in COMBINERS:
        raise ValueError("sok1x.lookup_sparse: combiners: got {!r}, expected {}".format(
            combiner, " or ".join(map(repr, COMBINERS))))
    bags = bags_of(table.table.name, ids)
    with tf.name_scope("lookup_sparse"):
        if weights is not None:
            given, weights = weights, weights_of(table.table.name, weights, bags)
            bags = lying_as(table.table.name, given, bags)
        return looked_up("lookup_sparse", training, ids, lambda trains: combined(
            table, bags, combiner, trains, dtype, filtered, weights))


def combined(table: EmbeddingVariable, bags: Bags, combiner: str, training: Any = True, dtype: str = "float32",
             filtered: bool = False, weights: Optional[tf.Tensor] = None) -> tf.Tensor:
    """The rows of each sample's ids, combined, in one exchange with all other lookups of a step.

    Args:
        table: the variable.
        bags: its ids, int32 or int64.
        combiner: one of `COMBINERS`.
        training: bool or scalar bool tensor: whether unseen keys get rows.
        dtype: 'float32' or 'float16'.
        filtered: whether new keys get rows with the table's `filter_ratio` only.
        weights: float32 [K], or None: each is 1.

    Returns:
        [B, D], of `dtype`; zeros for a sample without ids.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> from sok1x import lookup, sparse_ids
        >>> sok.init()
        >>> with tf.Graph().as_default():
        ...     items = sok.Variable([[1.0, 2.0], [3.0, 4.0]], name="items")
        ...     bags = sparse_ids.bags_of("items", tf.ragged.constant([[0, 1], []]))
        ...     lookup.combined(items, bags, "sum").shape.as_list()
        [None, 2]
    """
    _read(table)
    if weights is None and combiner == "sqrtn":
        weights = tf.ones_like(bags.ids, tf.float32)
    return _told(table, embedding.lookup_combined(
        table.table_variables, bags.as_keys_of(table.table).given, None, _NO_LIMIT, combiner, training, dtype=dtype,
        filtered=filtered, weights=weights))


def rows_of(table: EmbeddingVariable, bags: Bags, training: Any = True, dtype: str = "float32") -> tf.Tensor:
    """The row of each id, for whoever combines them.

    Args:
        table: as for `combined`, and so are the others.
        bags: see there.
        training: see there.
        dtype: see there.

    Returns:
        [K, D], of `dtype`.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> from sok1x import lookup, sparse_ids
        >>> sok.init()
        >>> with tf.Graph().as_default():
        ...     items = sok.Variable([[1.0, 2.0], [3.0, 4.0]], name="items")
        ...     bags = sparse_ids.bags_of("items", tf.ragged.constant([[0, 1], []]))
        ...     lookup.rows_of(items, bags).shape.as_list()
        [2, 2]
    """
    _read(table)
    return _told(table, embedding.lookup_dense(table.table_variables, _keys(table, bags.ids), training, dtype,
                                               samples=bags.indices))


def _check_filter(table: EmbeddingVariable) -> None:
    forgetting = table.table.forgetting
    if forgetting is None or forgetting.filter_ratio == 1:
        raise ValueError("sok1x.lookup_sparse: use_low_frequency_filter: got True for table '{}', expected one that "
                         "has a filter_ratio below 1: give it to sok1x.DynamicVariable, or to the layer".format(
                             table.table.name))


def _for_each(what: str, given: Any, several: bool, expected: int) -> List[Any]:
    """A list with something for each table."""
    if several != isinstance(given, (list, tuple)):
        raise ValueError("sok1x.lookup_sparse: {}: got {}, expected {}".format(
            what, "a list" if not several else repr(given),
            "one for the one table" if not several else "a list, one for each of {} tables".format(expected)))
    found = list(given) if several else [given]
    if len(found) != expected:
        raise ValueError("sok1x.lookup_sparse: {}: got {} for {} tables, expected one for each".format(
            what, len(found), expected))
    return found


def checked(function: str, table: Any, argument: str = "params",
            of_tensorflow: str = "embedding_lookup_sparse") -> EmbeddingVariable:
    """What must be a table that can be looked up here.

    Args:
        function: who asks, below `sok1x.`, for messages.
        table: what was given.
        argument: the name of what it was given as, for messages.
        of_tensorflow: what in `tf.nn` looks up ids of a `tf.Variable`, for messages.

    Returns:
        The table's variable.

    Raises:
        TypeError: it is no table of ours, or not float32.
        ValueError: it is a table of another graph.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> from sok1x import lookup
        >>> sok.init()
        >>> with tf.Graph().as_default():
        ...     items = sok.Variable([[1.0, 2.0], [3.0, 4.0]], name="items")
        ...     lookup.checked("lookup_sparse", items) is items
        True
    """
    what = "sok1x.{}: {}".format(function, argument)
    table = given_tables.table(what, table, "{}; a tf.Variable's ids are looked up with tf.nn.{}".format(
        given_tables.EXPECTED, of_tensorflow))
    if table.table.dtype != "float32":
        raise TypeError("{}: got '{}' of dtype {}, expected float32 rows: make it with "
                        "sok1x.Variable(..., dtype=tf.float32), or read this rank's rows with tf.nn.embedding_lookup"
                        .format(what, table.table.name, table.table.dtype))
    keras3.warn_within("table '{}'".format(table.table.name))
    current = tf.get_default_graph()
    if table.graph is not current and not (eager.is_on() and table.graph is eager.graph()):
        where = (
            "inside a function body, where ranks cannot agree on the order of exchanges (with control flow v2 a branch "
            "of tf.cond and a tf.while_loop have one: tf.compat.v1.disable_control_flow_v2() avoids that; of "
            "tf.switch_case each always has: tf.case has none)"
            if current.building_function else "in another tf.Graph than that of the table")
        raise ValueError("{}: got a call for '{}' {}; make the lookup in the graph of the table".format(
            what, table.table.name, where))
    return table


def _keys(table: EmbeddingVariable, ids: tf.Tensor) -> tf.Tensor:
    return key_types.keys_of(ids, table.table)


def _read(table: EmbeddingVariable) -> None:
    """A tf.GradientTape learns of it, as from any variable that is read."""
    resource_variable_ops.variable_accessed(table)


def _told(table: EmbeddingVariable, rows: tf.Tensor) -> tf.Tensor:
    """Notes with the table, for who would move its rows, that there is a lookup."""
    table.is_looked_up = True
    return rows


def _computed(function: str, dtype: Any) -> str:
    """What a policy computes in; None: that which has been set for all layers."""
    return str(precision.policy("sok1x." + function, dtype).compute_dtype)

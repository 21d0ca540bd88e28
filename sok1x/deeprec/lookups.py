"""Any number of lookups in one call: in tables of ours, and in TensorFlow's variables beside them."""
from typing import Any, List, NamedTuple, Optional, Sequence

import tensorflow.compat.v1 as tf

from sok1x.core.embedding_variable import EmbeddingVariable
from sok1x.embeddings.lookup_training import looked_up
from sok1x.graph_ops.bridge.tensorflow_versions import PartitionedVariable, Variable, weighted_mean
from sok1x.lookup import checked, combined, rows_of
from sok1x.sparse_ids import Bags, bags_of, lying_as, weights_in_place, weights_of
from sok1x.weighting import weighted

COMBINERS = ("mean", "sum", "sqrtn")
FUNCTION = "deeprec.group_embedding_lookup_sparse"


class Lookup(NamedTuple):
    """One of the lookups.

    Attributes:
        params: a table of ours (`sok.Variable`, `sok.DynamicVariable`, an EmbeddingVariable, a layer's), a tf.Variable
            or a PartitionedVariable.
        ids: a tf.SparseTensor or tf.RaggedTensor [B, n], int32 or int64.
        weights: floats of the same form; None: all are 1.
        combiner: 'mean', 'sum' or 'sqrtn'.
        sequence: whether ids are not combined, but each has its place: [B, T, D].
        training: bool or scalar bool tensor: whether a table's unseen keys get rows; None: as of `sok.lookup_sparse`.
        max_norm: rows are clipped to this l2 norm before they are combined; None: they are not.
        function: who looks up, below `sok1x.`, for messages.

    Example:
        >>> from sok1x.deeprec.lookups import Lookup
        >>> Lookup(None, None).combiner
        'mean'
    """

    params: Any
    ids: Any
    weights: Any = None
    combiner: str = "mean"
    sequence: bool = False
    training: Any = None
    max_norm: Optional[float] = None
    function: str = FUNCTION


def lookup_many(lookups: Sequence[Lookup], name: Optional[str] = None,
                partition_strategy: str = "mod") -> List[tf.Tensor]:
    """All of the lookups, those in tables of ours exchanged together.

    Args:
        lookups: what is looked up; a table may be there several times.
        name: of the ops' scope.
        partition_strategy: 'mod' or 'div': how ids are spread over the parts of a PartitionedVariable.

    Returns:
        For each, [B, D] of the rows' dtype, zeros for a sample without ids; of a sequence [B, T, D], T being the ids'
        second dimension, with zeros where there is no id.

    Raises:
        TypeError: something that is no variable, ids or weights of another type or dtype, or a variable of integers
            that are not just added up.
        ValueError: an unknown combiner, ids or weights of the wrong rank, or a table of another graph.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> from sok1x.deeprec.lookups import Lookup, lookup_many
        >>> sok.init()
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     items = sok.Variable([[1.0, 2.0], [3.0, 4.0]], name="items")
        ...     local = tf.get_variable("local", initializer=[[1.0], [2.0]])
        ...     ids = tf.ragged.constant([[0, 1], []], dtype=tf.int64)
        ...     found = lookup_many([Lookup(items, ids, combiner="sum"), Lookup(local, ids, sequence=True)])
        ...     session.run(tf.global_variables_initializer())
        ...     [value.tolist() for value in session.run(found)]
        [[[4.0, 6.0], [0.0, 0.0]], [[[1.0], [2.0]], [[0.0], [0.0]]]]
    """
    with tf.name_scope(name, "group_embedding_lookup"):
        return [_one(lookup, partition_strategy) for lookup in lookups]


def _one(lookup: Lookup, partition_strategy: str) -> tf.Tensor:
    params, combiner = lookup.params, lookup.combiner
    if combiner not in COMBINERS:
        raise ValueError("sok1x.{}: combiners: got {!r}, expected {}".format(
            lookup.function, combiner, ", ".join(map(repr, COMBINERS[:-1])) + " or " + repr(COMBINERS[-1])))
    ours = isinstance(params, EmbeddingVariable)
    if ours:
        checked(lookup.function, params)
    elif not isinstance(params, (Variable, PartitionedVariable)):
        raise TypeError("sok1x.{}: params: got {!r} of type {}, expected EmbeddingVariables "
                        "(tf.get_embedding_variable), sok1x.Variables or tf.Variables".format(
                            lookup.function, params, type(params).__name__))
    label = params.table.name if ours else params.name
    bags = bags_of(label, lookup.ids, lookup.function)
    if not ours and params.dtype.is_integer and (lookup.weights is not None or not (
            lookup.sequence or combiner == "sum")):
        raise TypeError("sok1x.{}: params: got '{}' of {}, whose rows can be added up alone, expected a variable of "
                        "floats, or combiner 'sum' and no weights".format(
                            lookup.function, label, params.dtype.base_dtype.name))
    weights = None
    if lookup.weights is not None:
        weights = weights_of(label, lookup.weights, bags, lookup.function,
                             tf.float64 if not ours and params.dtype.base_dtype == tf.float64 else tf.float32)
    if ours and lookup.max_norm is None and not lookup.sequence:
        if lookup.weights is not None:
            bags = lying_as(label, lookup.weights, bags, lookup.function)
        return looked_up(lookup.function, lookup.training, lookup.ids, lambda trains: combined(
            params, bags, combiner, trains, weights=weights))
    rows = looked_up(lookup.function, lookup.training, lookup.ids, lambda trains: rows_of(params, bags, trains)) \
        if ours else _rows_of_variable(params, bags.ids, partition_strategy, "rows")
    if weights is not None:
        weights = weights_in_place(label, lookup.weights, weights, bags, lookup.function)
    if lookup.max_norm is not None:
        rows = tf.clip_by_norm(rows, lookup.max_norm, axes=1)
    if lookup.sequence:
        return _sequence(rows, weights, bags, combiner)
    return weighted(rows, weights, bags, combiner)


def _rows_of_variable(params: Any, ids: tf.Tensor, partition_strategy: str, name: str) -> tf.Tensor:
    """[K, D] of a variable that this rank has all of; its gradient has each row once, as of TensorFlow's lookups."""
    distinct, places = tf.unique(ids)
    return tf.gather(tf.nn.embedding_lookup(params, distinct, partition_strategy), places, name=name)


def _sequence(rows: tf.Tensor, weights: Optional[tf.Tensor], bags: Bags, combiner: str) -> tf.Tensor:
    """[B, T, D]: each id is combined with itself alone."""
    if weights is not None:
        if combiner == "sum":
            factors = weights
        else:
            factors = weighted_mean(weights, weights if combiner == "mean" else tf.sqrt(weights * weights))
        rows = tf.cast(tf.cast(rows, factors.dtype) * factors[:, tf.newaxis], rows.dtype)
    shape = tf.concat([bags.dense_shape[:2], tf.cast(tf.shape(rows)[1:], tf.int64)], 0)
    made = tf.scatter_nd(bags.indices[:, :2], rows, shape)
    made.set_shape([None, None, rows.shape[-1]])
    return made

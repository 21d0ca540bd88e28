"""From a column's ids and weights to its embeddings: what TensorFlow's `safe_embedding_lookup_sparse` does."""
import contextlib
from typing import Any, Iterator, Optional, Tuple

import tensorflow.compat.v1 as tf

from sok1x.core.embedding_variable import EmbeddingVariable
from sok1x.deeprec.lookups import Lookup, lookup_many
from sok1x.feature_column import groups, present_values
from sok1x.feature_column.key_column import key_column_of
from sok1x.graph_ops.bridge.tensorflow_versions import V2
from sok1x.graph_ops.bridge.tensorflow_versions import feature_column_v2 as v2
from sok1x.sparse_ids import bags_of, weights_in_place, weights_of

_FUNCTION = "feature_column"  # for messages
Pair = v2.CategoricalColumn.IdWeightPair


@contextlib.contextmanager
def on_host() -> Iterator[None]:
    """Where ids are made: in host memory, as features are, and of dense ones by an op of ours.

    Left to itself TensorFlow puts parts of it on a GPU, such as the search for strings that are missing: then each
    column goes there and back, and waits for it.

    Returns:
        A context manager.

    Example:
        >>> import tensorflow as tf
        >>> from sok1x.feature_column import lookups
        >>> with tf.Graph().as_default(), lookups.on_host():
        ...     tf.where([True, False]).device
        '/device:CPU:0'
    """
    with tf.device("/device:CPU:0"), present_values.by_one_op():
        yield


def look_up(table: EmbeddingVariable, column: Any, pair: Any, combiner: str, max_norm: Optional[float],
            trainable: bool, group: Optional[groups.Group] = None, resolver: Any = None) -> tf.Tensor:
    """The rows of a column's ids, combined along the last dimension.

    As TensorFlow, it leaves out ids below 0 of columns that have them for what is not in a vocabulary (keys may be any
    number), and, unless the combiner is 'sum', ids whose weights are not above 0.

    Args:
        table: the column's.
        column: the categorical column.
        pair: its IdWeightPair: tf.SparseTensors int64 and float32 of shape [B, n], weights or None.
        combiner: 'mean', 'sum' or 'sqrtn'.
        max_norm: None, or the largest l2 norm of a row, to which longer ones are clipped before they are combined.
        trainable: whether what resolves the column trains it.
        group: of the column.
        resolver: what has the features of this call.

    Returns:
        float32 [B, D], or [B, …, D] of ids with more dimensions; zeros where there are no ids.

    Raises:
        ValueError: as `sok.lookup_sparse`.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> from sok1x.feature_column import lookups
        >>> sok.init()
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     table = sok.Variable([[1.0], [2.0], [4.0]])
        ...     column = tf.feature_column.categorical_column_with_identity("ad", 3)
        ...     ids = tf.SparseTensor([[0, 0], [0, 1]], tf.constant([0, 2], tf.int64), [2, 2])
        ...     rows = lookups.look_up(table, column, lookups.Pair(ids, None), "sum", None, True)
        ...     _ = session.run(tf.global_variables_initializer())
        ...     session.run(rows).tolist()
        [[5.0], [0.0]]
    """
    ids, weights, shape = _matrix(*pair)
    negative, light = _has_negative(column, ids), weights is not None and combiner != "sum"
    if weights is not None and (negative or light):  # what is left of both could not show that they were not as many
        weights = _in_place(table.table.name, ids, weights)
    if negative:
        ids, weights = _retained(ids, weights, ids.values >= 0)
    if light:
        ids, weights = _retained(ids, weights, weights.values > 0)
    given = [ids.indices, ids.values] + ([] if weights is None else [weights.values])
    splits = None if weights is not None or max_norm is not None else present_values.row_splits(ids)
    bags = ids if splits is None else tf.RaggedTensor.from_row_splits(ids.values, splits, validate=False)
    with groups.together(group, resolver, given):
        rows, = lookup_many([Lookup(table, bags, weights, combiner, training=None if trainable else False,
                                    max_norm=max_norm, function=_FUNCTION)])
    if shape is None:
        return rows
    dim = table.table.dim
    return tf.reshape(rows, tf.concat([tf.cast(shape[:-1], tf.int32), [dim]], 0))


def _matrix(ids: tf.SparseTensor, weights: Optional[tf.SparseTensor]) -> Tuple[Any, Any, Optional[tf.Tensor]]:
    """Ids and weights as matrices, and the shape that ids had if that was another."""
    if ids.dense_shape.shape.as_list() == [2]:
        return ids, weights, None
    shape = ids.dense_shape
    matrix = [tf.reduce_prod(shape[:-1]), shape[-1]]
    ids = tf.sparse.reshape(ids, matrix)
    if weights is not None:
        weights = tf.SparseTensor(ids.indices, weights.values, ids.dense_shape)
    return ids, weights, shape


def _in_place(label: str, ids: tf.SparseTensor, weights: tf.SparseTensor) -> tf.SparseTensor:
    """The weights, which fail where there are not as many as ids, or they lie in other places, in the ids' own."""
    bags = bags_of(label, ids, _FUNCTION)
    values = weights_of(label, weights, bags, _FUNCTION, weights.dtype)
    with on_host():
        if weights.indices is ids.indices:  # those of ids with more dimensions, which may yet be more or fewer
            sizes = [tf.size(values), tf.size(ids.values)]
            with tf.control_dependencies([tf.raw_ops.Assert(condition=tf.equal(*sizes), data=[
                    "sok1x.feature_column: sp_weights: expected one for each id of '{}': got weights, and ids:".format(
                        label), *sizes])]):
                values = tf.identity(values)
        else:
            values = weights_in_place(label, weights, values, bags, _FUNCTION)
    return tf.SparseTensor(ids.indices, values, ids.dense_shape)


def _has_negative(column: Any, ids: tf.SparseTensor) -> bool:
    """Whether a column of TensorFlow's may give ids below 0, for what it does not know.

    Those of hashes, crosses and buckets cannot, nor those of identities with a default value; without one these say
    themselves what is wrong, before TensorFlow 2. There dense features are spared the ops: -1, which says that there
    is no id, is left out anyway, and the lookup refuses others.
    """
    if key_column_of(column) is not None:
        return False
    while hasattr(column, "categorical_column"):
        column = column.categorical_column
    if isinstance(column, v2.IdentityCategoricalColumn):
        return V2 and column.default_value is None and present_values.row_splits(ids) is None
    return not isinstance(column, (v2.HashedCategoricalColumn, v2.CrossedColumn, v2.BucketizedColumn))


def _retained(ids: tf.SparseTensor, weights: Optional[tf.SparseTensor], kept: tf.Tensor) -> Tuple[Any, Any]:
    left = tf.sparse.retain(ids, kept)  # weights of the same indices need not be compared with them
    return left, None if weights is None else tf.SparseTensor(left.indices, tf.boolean_mask(weights.values, kept),
                                                              left.dense_shape)

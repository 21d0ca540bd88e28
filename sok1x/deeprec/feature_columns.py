"""`tf.feature_column` for DeepRec's scripts: columns with tables of ours where they ask for such, else TensorFlow's."""
from typing import Any, Iterable, List, Optional

from sok1x.feature_column import columns, groups
from sok1x.feature_column.groups import group_embedding_column_scope
from sok1x.feature_column.key_column import categorical_column_with_embedding, key_column_of
from sok1x.graph_ops.bridge.tensorflow_versions import feature_column_v2 as stock

__all__ = ["categorical_column_with_embedding", "embedding_column", "group_embedding_column_scope",
           "shared_embedding_columns"]


def embedding_column(categorical_column: Any, dimension: int, combiner: str = "mean", initializer: Any = None,
                     ckpt_to_load_from: Any = None, tensor_name_in_ckpt: Any = None, max_norm: Optional[float] = None,
                     trainable: bool = True) -> Any:
    """`sok1x.feature_column.embedding_column` in a `group_embedding_column_scope`, and over columns of keys.

    All others are TensorFlow's own, with an ordinary variable.

    Args:
        categorical_column: what has the ids.
        dimension: D.
        combiner: 'mean', 'sum' or 'sqrtn'.
        initializer: of the rows.
        ckpt_to_load_from: as TensorFlow's; for tables of ours None.
        tensor_name_in_ckpt: likewise.
        max_norm: None, or the l2 norm to which longer rows are clipped.
        trainable: whether it is trained.

    Returns:
        The column.

    Raises:
        ValueError: as either.

    Example:
        >>> import tensorflow as tf
        >>> from sok1x.deeprec import feature_columns
        >>> shops = tf.feature_column.categorical_column_with_identity("shop", 100)
        >>> with feature_columns.group_embedding_column_scope("shops"):
        ...     ours = feature_columns.embedding_column(shops, 8)
        >>> [type(one).__name__ for one in (ours, feature_columns.embedding_column(shops, 8))]
        ['TableColumn', 'EmbeddingColumn']
    """
    return _chosen([categorical_column], columns.embedding_column, stock.embedding_column)(
        categorical_column, dimension, combiner, initializer, ckpt_to_load_from, tensor_name_in_ckpt, max_norm,
        trainable)


def shared_embedding_columns(categorical_columns: Iterable[Any], dimension: int, combiner: str = "mean",
                             initializer: Any = None, shared_embedding_collection_name: Optional[str] = None,
                             ckpt_to_load_from: Any = None, tensor_name_in_ckpt: Any = None,
                             max_norm: Optional[float] = None, trainable: bool = True) -> List[Any]:
    """`sok1x.feature_column.shared_embedding_columns` in a `group_embedding_column_scope`, and over columns of keys.

    All others are TensorFlow's own, with an ordinary variable.

    Args:
        categorical_columns: what has the ids.
        dimension: D.
        combiner: 'mean', 'sum' or 'sqrtn'.
        initializer: of the rows.
        shared_embedding_collection_name: a name for the table.
        ckpt_to_load_from: as TensorFlow's; for tables of ours None.
        tensor_name_in_ckpt: likewise.
        max_norm: None, or the l2 norm to which longer rows are clipped.
        trainable: whether it is trained.

    Returns:
        A column for each, in their order.

    Raises:
        ValueError: as either.

    Example:
        >>> import tensorflow as tf
        >>> from sok1x.deeprec import feature_columns
        >>> keys = [feature_columns.categorical_column_with_embedding(name, tf.int64) for name in ("seen", "bought")]
        >>> [column.name for column in feature_columns.shared_embedding_columns(keys, 8)]
        ['seen_shared_embedding', 'bought_shared_embedding']
    """
    given = list(categorical_columns)
    return _chosen(given, columns.shared_embedding_columns, stock.shared_embedding_columns)(
        given, dimension, combiner, initializer, shared_embedding_collection_name, ckpt_to_load_from,
        tensor_name_in_ckpt, max_norm, trainable)


def _chosen(given: List[Any], ours: Any, theirs: Any) -> Any:
    in_scope = groups.current() is not None
    return ours if in_scope or any(key_column_of(column) is not None for column in given) else theirs

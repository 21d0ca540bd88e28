"""`tf.feature_column` for DeepRec's scripts: columns with tables of ours where they ask for such, else TensorFlow's."""
import functools
from typing import Any, Iterable, List, Optional

from sok1x.feature_column import columns, groups
from sok1x.feature_column.groups import group_embedding_column_scope
from sok1x.feature_column.key_column import categorical_column_with_embedding, key_column_of
from sok1x.graph_ops.bridge.tensorflow_versions import V2
from sok1x.graph_ops.bridge.tensorflow_versions import feature_column_v2 as stock

__all__ = ["categorical_column_with_embedding", "embedding_column", "group_embedding_column_scope",
           "shared_embedding_columns"]

_FUSIONS = (None, False, True, "v1", "v2")  # DeepRec's releases have had these


def embedding_column(categorical_column: Any, dimension: int, combiner: str = "mean", initializer: Any = None,
                     ckpt_to_load_from: Any = None, tensor_name_in_ckpt: Any = None, max_norm: Optional[float] = None,
                     trainable: bool = True, *, use_safe_embedding_lookup: bool = True, do_fusion: Any = None) -> Any:
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
        use_safe_embedding_lookup: as of TensorFlow 2: see `sok1x.feature_column.embedding_column`.
        do_fusion: as of DeepRec, True, 'v1' or 'v2': a column's lookup is one op, as it is in any case of tables of
            ours; of TensorFlow's columns None or False.

    Returns:
        The column.

    Raises:
        TypeError: use_safe_embedding_lookup is no bool.
        ValueError: as either; or a do_fusion that TensorFlow's columns do not have.

    Example:
        >>> import tensorflow as tf
        >>> from sok1x.deeprec import feature_columns
        >>> shops = tf.feature_column.categorical_column_with_identity("shop", 100)
        >>> with feature_columns.group_embedding_column_scope("shops"):
        ...     ours = feature_columns.embedding_column(shops, 8)
        >>> [type(one).__name__ for one in (ours, feature_columns.embedding_column(shops, 8))]
        ['TableColumn', 'EmbeddingColumn']
    """
    make = _chosen("embedding_column", [categorical_column], columns.embedding_column, stock.embedding_column,
                   use_safe_embedding_lookup, do_fusion)
    return make(categorical_column, dimension, combiner, initializer, ckpt_to_load_from, tensor_name_in_ckpt, max_norm,
                trainable)


def shared_embedding_columns(categorical_columns: Iterable[Any], dimension: int, combiner: str = "mean",
                             initializer: Any = None, shared_embedding_collection_name: Optional[str] = None,
                             ckpt_to_load_from: Any = None, tensor_name_in_ckpt: Any = None,
                             max_norm: Optional[float] = None, trainable: bool = True, *,
                             use_safe_embedding_lookup: bool = True, do_fusion: Any = None) -> List[Any]:
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
        use_safe_embedding_lookup: as of TensorFlow 2: see `sok1x.feature_column.embedding_column`.
        do_fusion: as of DeepRec, True, 'v1' or 'v2': a column's lookup is one op, as it is in any case of tables of
            ours; of TensorFlow's columns None or False.

    Returns:
        A column for each, in their order.

    Raises:
        TypeError: use_safe_embedding_lookup is no bool.
        ValueError: as either; or a do_fusion that TensorFlow's columns do not have.

    Example:
        >>> import tensorflow as tf
        >>> from sok1x.deeprec import feature_columns
        >>> keys = [feature_columns.categorical_column_with_embedding(name, tf.int64) for name in ("seen", "bought")]
        >>> [column.name for column in feature_columns.shared_embedding_columns(keys, 8)]
        ['seen_shared_embedding', 'bought_shared_embedding']
    """
    given = list(categorical_columns)
    make = _chosen("shared_embedding_columns", given, columns.shared_embedding_columns, stock.shared_embedding_columns,
                   use_safe_embedding_lookup, do_fusion)
    return make(given, dimension, combiner, initializer, shared_embedding_collection_name, ckpt_to_load_from,
                tensor_name_in_ckpt, max_norm, trainable)


def _chosen(function: str, given: List[Any], ours: Any, theirs: Any, is_safe: Any, do_fusion: Any) -> Any:
    """What makes the columns."""
    if not any(do_fusion is one or (isinstance(one, str) and do_fusion == one) for one in _FUSIONS):
        raise ValueError("tf.feature_column.{}: do_fusion: got {!r}, expected {}".format(
            function, do_fusion, ", ".join(map(repr, _FUSIONS))))
    if groups.current() is not None or any(key_column_of(column) is not None for column in given):
        return functools.partial(ours, use_safe_embedding_lookup=is_safe)
    if do_fusion:
        raise ValueError("tf.feature_column.{}: do_fusion: got {!r}, expected None: the column is TensorFlow's own, "
                         "which has no fused lookup; make it in a group_embedding_column_scope, or over "
                         "categorical_column_with_embedding, and its table is ours, whose lookups are fused".format(
                             function, do_fusion))
    # Of TensorFlow 1.15 columns are safe in any case.
    return functools.partial(theirs, use_safe_embedding_lookup=is_safe) if V2 else theirs

"""Categorical columns whose ids are keys: any int64, or strings that are hashed to one."""
import collections
from typing import Any, Dict, List, Optional

import tensorflow.compat.v1 as tf

from sok1x.feature_column import groups
from sok1x.graph_ops.bridge.tensorflow_versions import feature_column as v1
from sok1x.graph_ops.bridge.tensorflow_versions import feature_column_v2 as v2

__all__ = ["categorical_column_with_embedding"]

_HASHES = 2 ** 63 - 1  # of strings: keys in [0, 2**63 - 1)


def categorical_column_with_embedding(key: str, dtype: Any = tf.string, ev_option: Any = None,
                                      partition_num: Any = None) -> "KeyColumn":
    """A categorical column whose ids are the keys of a table that grows, for `embedding_column`.

    Integers are keys as they are: any int64. Strings are hashed to 63 bits. In a dense tensor -1, or '', is a missing
    value, as for TensorFlow's columns; in a tf.SparseTensor every value is a key.

    Args:
        key: the feature's name.
        dtype: of the feature: tf.string, or an integer.
        ev_option: of the table: a `tf.EmbeddingVariableOption`, or None.
        partition_num: None: rows are spread over the ranks by key.

    Returns:
        The column. `tf.feature_column.weighted_categorical_column` and `crossed_column` take it too.

    Raises:
        TypeError: a key that is no string.
        ValueError: a dtype that keys cannot have, or a number of partitions.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     ads = sok.feature_column.categorical_column_with_embedding("ad", tf.int64)
        ...     column = sok.feature_column.embedding_column(ads, 4, initializer=tf.ones_initializer())
        ...     layer = tf.feature_column.input_layer({"ad": tf.constant([[7], [-2], [2 ** 40]], tf.int64)}, column)
        ...     _ = session.run(tf.global_variables_initializer())
        ...     session.run(layer).tolist()[1]
        [1.0, 1.0, 1.0, 1.0]
    """
    label = "categorical_column_with_embedding '{}'".format(key)
    if not isinstance(key, str):
        raise TypeError("categorical_column_with_embedding: key: got {!r} of type {}, expected a feature's name".format(
            key, type(key).__name__))
    if isinstance(ev_option, int):  # an older order of the two
        ev_option, partition_num = partition_num, ev_option
    if partition_num is not None:
        raise ValueError("{}: partition_num: got {!r}, expected None: rows are spread over the ranks by key".format(
            label, partition_num))
    dtype = tf.as_dtype(dtype)
    if dtype != tf.string and not dtype.is_integer:
        raise ValueError("{}: dtype: got {}, expected tf.string or an integer".format(label, dtype.name))
    from sok1x.feature_column import linear  # which needs this module
    linear.watch()
    column = KeyColumn(key, dtype, ev_option)
    column.group = groups.current()
    return column


class KeyColumn(v2.CategoricalColumn, v1._CategoricalColumn,
                collections.namedtuple("KeyColumn", ("key", "dtype", "ev_option"))):
    """See `categorical_column_with_embedding`.

    Args:
        key: the feature's name.
        dtype: its tf.DType.
        ev_option: of the table, or None.

    Attributes:
        group: that a linear model looks it up with, or None.
    """

    group: Optional[groups.Group] = None

    def __hash__(self) -> int:
        return hash((self.key, self.dtype))  # options need not be hashable

    @property
    def _is_v2_column(self) -> bool:
        return True

    @property
    def name(self) -> str:
        """The feature's name."""
        return str(self.key)

    @property
    def parse_example_spec(self) -> Dict[str, Any]:
        """For tf.io.parse_example."""
        dtype = self.dtype if self.dtype == tf.string else tf.int64
        return {self.key: tf.io.VarLenFeature(dtype)}

    _parse_example_spec = parse_example_spec

    @property
    def num_buckets(self) -> int:
        """There is no such number: raises ValueError, except in a linear model, which does without one."""
        from sok1x.feature_column import linear  # which needs this module
        if linear.is_building():
            return _HASHES
        raise ValueError("column '{}': its keys have no fixed number of buckets, which an indicator_column, or "
                         "whatever else has asked, needs: make it an embedding_column".format(self.key))

    _num_buckets = num_buckets

    def transform_feature(self, transformation_cache: Any, state_manager: Any) -> tf.SparseTensor:
        """The keys, int64."""
        return self._keys(transformation_cache.get(self.key, state_manager))

    def _transform_feature(self, inputs: Any) -> tf.SparseTensor:
        return self._keys(inputs.get(self.key))

    def get_sparse_tensors(self, transformation_cache: Any, state_manager: Any) -> Any:
        """The keys, without weights."""
        return v2.CategoricalColumn.IdWeightPair(transformation_cache.get(self, state_manager), None)

    def _get_sparse_tensors(self, inputs: Any, weight_collections: Any = None, trainable: Any = None) -> Any:
        return v2.CategoricalColumn.IdWeightPair(inputs.get(self), None)

    def _keys(self, feature: Any) -> tf.SparseTensor:
        if isinstance(feature, tf.Tensor) and feature.dtype.is_unsigned:
            feature = tf.cast(feature, tf.int64)  # -1 is missing: in its own dtype that is its largest number
        ids = v2._to_sparse_input_and_drop_ignore_values(feature)
        if ids.dtype != self.dtype and not (ids.dtype.is_integer and self.dtype.is_integer):
            raise ValueError("column '{}': got a feature of dtype {}, expected {}: give the column that dtype, or cast "
                             "the feature".format(self.key, ids.dtype.name, self.dtype.name))
        values = tf.strings.to_hash_bucket_fast(ids.values, _HASHES, name="keys") if ids.dtype == tf.string else \
            tf.cast(ids.values, tf.int64)
        return tf.SparseTensor(ids.indices, values, ids.dense_shape)

    @property
    def parents(self) -> List[Any]:
        """What it is made of."""
        return [self.key]

    def _get_config(self) -> Dict[str, Any]:
        if self.ev_option is not None:
            raise ValueError("column '{}': it has an ev_option, which has no configuration: save weights, not the "
                             "model's configuration".format(self.key))
        return {"key": self.key, "dtype": self.dtype.name, "ev_option": None}

    @classmethod
    def _from_config(cls, config: Dict[str, Any], custom_objects: Any = None,
                     columns_by_name: Any = None) -> "KeyColumn":
        return cls(config["key"], tf.as_dtype(config["dtype"]), None)


def key_column_of(column: Any) -> Optional[KeyColumn]:
    """The column of keys that a categorical column has its ids from, through weights and sequences.

    Args:
        column: a categorical column.

    Returns:
        The `KeyColumn`, or None.

    Example:
        >>> import tensorflow as tf
        >>> from sok1x.feature_column import key_column
        >>> ads = key_column.categorical_column_with_embedding("ad", tf.int64)
        >>> key_column.key_column_of(tf.feature_column.weighted_categorical_column(ads, "price")) is ads
        True
    """
    while not isinstance(column, KeyColumn):
        column = getattr(column, "categorical_column", None)
        if column is None:
            return None
    return column

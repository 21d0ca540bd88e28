"""Linear models over keys: a weight for each key, in a table of ours.

TensorFlow's linear models make a variable with a row for each bucket of a categorical column, and look it up with ops
that know of one rank alone. For columns of keys both are done here, where TensorFlow's functions are wrapped; other
columns go on as ever.
"""
from typing import Any

import tensorflow.compat.v1 as tf

from sok1x.core.embedding_variable import EmbeddingVariable
from sok1x.core.frameworks import wrapping
from sok1x.core.thread_scope import ThreadScope
from sok1x.feature_column import cols_to_vars, key_column, lookups, tables
from sok1x.graph_ops.bridge.tensorflow_versions import feature_column as v1
from sok1x.graph_ops.bridge.tensorflow_versions import feature_column_v2 as v2
from sok1x.graph_ops.bridge.tensorflow_versions import linear_model_layers

_building = ThreadScope()
_WEIGHTS = "weights"  # TensorFlow's name of the variable


def watch() -> None:
    """From now on TensorFlow's linear models take columns of keys."""
    cols_to_vars.watch()
    for owner, name, around in (
            *((layer, "build", _layer_build) for layer in linear_model_layers()),
            (v2._StateManagerImpl, "create_variable", _create_variable),
            (v2, "_create_categorical_column_weighted_sum", _sum_of_layer),
            (v1._FCLinearWrapper, "build", _wrapper_build),
            (v1, "_create_categorical_column_weighted_sum", _sum_of_builder)):
        wrapping.wrap(owner, name, around)


def is_building() -> bool:
    """Whether a linear model asks for numbers of buckets, to make its variables."""
    return bool(_building.value)


def _table(layer: Any, column: Any, units: int, trainable: bool, collections: Any) -> EmbeddingVariable:
    table = tables.get(_WEIGHTS, column, units, tf.zeros_initializer(), trainable, collections)
    # Estimators report what share of a linear model's weights are zeros: those of the table's rows.
    tables.add_to_layer(layer, column.name, table, only_rows=True)
    return table


def _layer_build(stock: Any) -> Any:
    def build(self: Any, shape: Any) -> Any:
        with _building.entered():
            return stock(self, shape)
    return build


def _create_variable(stock: Any) -> Any:
    def create_variable(self: Any, feature_column: Any, name: str, shape: Any, *args: Any, **options: Any) -> Any:
        if not is_building() or name != _WEIGHTS or not isinstance(feature_column, v2.CategoricalColumn) or \
                key_column.key_column_of(feature_column) is None:
            return stock(self, feature_column, name, shape, *args, **options)
        table = _table(self._layer, feature_column, shape[1], self._trainable and options.get("trainable", True), None)
        self._cols_to_vars_map[feature_column][name] = table
        return table
    return create_variable


def _wrapper_build(stock: Any) -> Any:
    def build(self: Any, shape: Any) -> Any:
        column = self._feature_column
        if not isinstance(column, v2.CategoricalColumn) or key_column.key_column_of(column) is None:
            return stock(self, shape)
        self._weight_var = _table(self, column, self._units, self.trainable, self._weight_collections)
        self.built = True
        return None
    return build


def _sum_of_layer(stock: Any) -> Any:
    def weighted_sum(column: Any, transformation_cache: Any, state_manager: Any, sparse_combiner: str,
                     weight_var: Any) -> Any:
        if not isinstance(weight_var, EmbeddingVariable):
            return stock(column, transformation_cache, state_manager, sparse_combiner, weight_var)
        with lookups.on_host():
            pair = column.get_sparse_tensors(transformation_cache, state_manager)
        return _looked_up(weight_var, column, pair, sparse_combiner, state_manager._trainable, transformation_cache)
    return tf.autograph.experimental.do_not_convert(weighted_sum)


def _sum_of_builder(stock: Any) -> Any:
    def weighted_sum(column: Any, builder: Any, units: int, sparse_combiner: str, weight_collections: Any,
                     trainable: Any, weight_var: Any = None) -> Any:
        if not isinstance(weight_var, EmbeddingVariable):
            return stock(column, builder, units, sparse_combiner, weight_collections, trainable, weight_var)
        with lookups.on_host():
            pair = column._get_sparse_tensors(builder, weight_collections, trainable)
        return _looked_up(weight_var, column, pair, sparse_combiner, bool(trainable), builder)
    return tf.autograph.experimental.do_not_convert(weighted_sum)


def _looked_up(table: EmbeddingVariable, column: Any, pair: Any, combiner: str, trainable: bool,
               resolver: Any) -> tf.Tensor:
    """[B, units]: all that a sample has, also of features with more dimensions."""
    ids, weights = pair
    if ids.dense_shape.shape.as_list() != [2]:
        with lookups.on_host():
            shape = ids.dense_shape  # of no samples nobody could tell what a -1 stands for
            ids = tf.sparse.reshape(ids, [shape[0], tf.reduce_prod(shape[1:])])
        if weights is not None:
            weights = tf.SparseTensor(ids.indices, weights.values, ids.dense_shape)
    keys = key_column.key_column_of(column)
    group = None if keys is None else keys.group
    return lookups.look_up(table, column, lookups.Pair(ids, weights), combiner, None, trainable, group, resolver)

"""Dense columns of embeddings whose tables are ours: `embedding_column` and `shared_embedding_columns`."""
from typing import Any, Dict, Iterable, List, Optional

import tensorflow.compat.v1 as tf

from sok1x.core.embedding_variable import EmbeddingVariable
from sok1x.core.options import initializers
from sok1x.embeddings.autograph import graph_code
from sok1x.feature_column import groups, linear, lookups, tables
from sok1x.feature_column.key_column import key_column_of
from sok1x.graph_ops.bridge.tensorflow_versions import V2
from sok1x.graph_ops.bridge.tensorflow_versions import feature_column as v1
from sok1x.graph_ops.bridge.tensorflow_versions import feature_column_utils as utils
from sok1x.graph_ops.bridge.tensorflow_versions import feature_column_v2 as v2

__all__ = ["embedding_column", "shared_embedding_columns"]

_WEIGHTS = "embedding_weights"  # TensorFlow's name of the variable
_GET_CONFIG, _FROM_CONFIG = ("get_config", "from_config") if V2 else ("_get_config", "_from_config")


def embedding_column(categorical_column: Any, dimension: int, combiner: str = "mean", initializer: Any = None,
                     ckpt_to_load_from: Any = None, tensor_name_in_ckpt: Any = None, max_norm: Optional[float] = None,
                     trainable: bool = True, *, use_safe_embedding_lookup: bool = True) -> "TableColumn":
    """`tf.feature_column.embedding_column` with a table of ours, spread over the ranks.

    It goes wherever TensorFlow's goes: `tf.feature_column.input_layer`, `tf.keras.layers.DenseFeatures`, linear models,
    Estimators. What comes out is what TensorFlow's column gives on the whole table; its variable has the name that
    TensorFlow's would have. All ranks resolve it alike; it joins them by `sok.init` if nothing has yet.

    Unseen keys get rows in what trains: an Estimator that evaluates or predicts, `input_layer(..., trainable=False)`,
    and Keras' evaluate and predict change no table.

    Args:
        categorical_column: of `categorical_column_with_embedding`, or any of TensorFlow's: hash bucket, vocabulary list
            or file, identity, bucketized, crossed, weighted, and sequences of these.
        dimension: D.
        combiner: 'mean', 'sum' or 'sqrtn'.
        initializer: as TensorFlow's, a normal distribution cut at two deviations of 1/sqrt(D) by default; or a name. An
            object of TensorFlow's or Keras' stands for its distribution: a row is a function of `sok.init`'s seed,
            table and key. One that gives values for a matrix is called for the whole table, which must have a fixed
            number of buckets.
        ckpt_to_load_from: None: tables are restored by the checkpoints that have their keys.
        tensor_name_in_ckpt: None.
        max_norm: None, or the l2 norm to which longer rows are clipped before they are combined.
        trainable: whether it is trained; if not, what is looked up inserts nothing.
        use_safe_embedding_lookup: as of TensorFlow 2. False says that every sample has ids, none of them negative, and
            weights above 0, of which both give the same.

    Returns:
        The column.

    Raises:
        TypeError: use_safe_embedding_lookup is no bool.
        ValueError: as TensorFlow's, or a checkpoint to load from.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     shops = tf.feature_column.categorical_column_with_identity("shop", 100)
        ...     column = sok.feature_column.embedding_column(shops, 8)
        ...     layer = tf.feature_column.input_layer({"shop": tf.constant([[3], [99]])}, [column])
        ...     _ = session.run(tf.global_variables_initializer())
        ...     session.run(layer).shape
        (2, 8)
    """
    _check(categorical_column, initializer, ckpt_to_load_from, tensor_name_in_ckpt, combiner,
           use_safe_embedding_lookup)
    stock = v2.embedding_column(categorical_column, dimension, combiner,
                                None if isinstance(initializer, str) else initializer, max_norm=max_norm,
                                trainable=trainable)
    if isinstance(initializer, str):
        stock = stock._replace(initializer=initializer)
    return TableColumn.of(stock, None)


def shared_embedding_columns(categorical_columns: Iterable[Any], dimension: int, combiner: str = "mean",
                             initializer: Any = None, shared_embedding_collection_name: Optional[str] = None,
                             ckpt_to_load_from: Any = None, tensor_name_in_ckpt: Any = None,
                             max_norm: Optional[float] = None, trainable: bool = True, *,
                             use_safe_embedding_lookup: bool = True) -> List["TableColumn"]:
    """`tf.feature_column.shared_embedding_columns` with one table of ours for all of them.

    Unlike TensorFlow's, they go into `tf.keras.layers.DenseFeatures` too. In a graph the table belongs to the name of
    the collection: whatever resolves one of the columns shares it. Keras' layers give the variable that name, as of
    `tf.compat.v2.feature_column.shared_embeddings`; all others `SCOPE/NAME/embedding_weights`. Where TensorFlow refuses
    it in such a layer, or another variable has it, the table has that of the column that comes first.

    Args:
        categorical_columns: of one kind and number of buckets, or all of `categorical_column_with_embedding` with equal
            dtypes and options; some may be weighted.
        dimension: D.
        combiner: as for `embedding_column`.
        initializer: likewise.
        shared_embedding_collection_name: a name for the table; by default made of the columns' names.
        ckpt_to_load_from: None.
        tensor_name_in_ckpt: None.
        max_norm: as for `embedding_column`.
        trainable: likewise.
        use_safe_embedding_lookup: likewise.

    Returns:
        A column for each, in their order.

    Raises:
        TypeError: use_safe_embedding_lookup is no bool.
        ValueError: as TensorFlow's, or a checkpoint to load from.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> columns = sok.feature_column
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     keys = [columns.categorical_column_with_embedding(name, tf.int64) for name in ("seen", "bought")]
        ...     shared = columns.shared_embedding_columns(keys, 4)
        ...     same = tf.constant([[7], [8]], tf.int64)
        ...     layer = tf.feature_column.input_layer({"seen": same, "bought": same}, shared)
        ...     _ = session.run(tf.global_variables_initializer())
        ...     out = session.run(layer)
        >>> (out[:, :4] == out[:, 4:]).all()
        True
    """
    given = list(categorical_columns)
    for column in given:
        _check(column, initializer, ckpt_to_load_from, tensor_name_in_ckpt, combiner, use_safe_embedding_lookup)
    keys = [key_column_of(column) for column in given]
    first = keys[0] if keys else None
    for column, found in zip(given, keys):
        if (found and found[1:]) != (first and first[1:]):
            raise ValueError("shared_embedding_columns: got {} beside {}: expected categorical columns of one kind, "
                             "of categorical_column_with_embedding with equal dtype and ev_option".format(
                                 column, given[0]))
    checked = given if first is None else [_STAND_IN._replace(key=column.name) for column in given]
    stock = v2.shared_embedding_columns(
        checked, dimension, combiner, None if isinstance(initializer, str) else initializer,
        shared_embedding_collection_name, max_norm=max_norm, trainable=trainable)
    return [TableColumn.of(v2.EmbeddingColumn(
        column, one.dimension, one.combiner, initializer if isinstance(initializer, str) else one.initializer, None,
        None, one.max_norm, one.trainable), one.shared_embedding_collection_name) for column, one in zip(given, stock)]


# What TensorFlow checks in place of columns of keys, which have no number of buckets.
_STAND_IN = v2.IdentityCategoricalColumn("", 1, None)


def _check(column: Any, initializer: Any, ckpt_to_load_from: Any, tensor_name_in_ckpt: Any, combiner: Any,
           use_safe_embedding_lookup: Any) -> None:
    label = "embedding_column of '{}'".format(getattr(column, "name", column))
    if not isinstance(use_safe_embedding_lookup, bool):
        raise TypeError("{}: use_safe_embedding_lookup: got {!r} of type {}, expected a bool".format(
            label, use_safe_embedding_lookup, type(use_safe_embedding_lookup).__name__))
    if not isinstance(column, (v2.CategoricalColumn, v1._CategoricalColumn)):
        raise ValueError("embedding_column: categorical_column: got {!r} of type {}, expected a categorical column, of "
                         "categorical_column_with_embedding or of tf.feature_column".format(
                             column, type(column).__name__))
    for name, value in (("ckpt_to_load_from", ckpt_to_load_from), ("tensor_name_in_ckpt", tensor_name_in_ckpt)):
        if value is not None:
            raise ValueError("{}: {}: got {!r}, expected None: a checkpoint's tensor has no keys; restore the table "
                             "with the model's checkpoints".format(label, name, value))
    if combiner not in ("mean", "sum", "sqrtn"):
        raise ValueError("{}: combiner: got {!r}, expected 'mean', 'sum' or 'sqrtn'".format(label, combiner))
    if isinstance(initializer, str):
        initializers.is_distribution(initializer)  # says what is wrong with the name


class TableColumn(v2.EmbeddingColumn):
    """An embedding column with a table of ours: see `embedding_column` and `shared_embedding_columns`.

    Attributes:
        group: that it is looked up with, or None.
        shared: the name of the table that it shares, or None.
    """

    group: Optional[groups.Group] = None
    shared: Optional[str] = None

    @classmethod
    def of(cls, stock: v2.EmbeddingColumn, shared: Optional[str]) -> "TableColumn":
        """TensorFlow's column with a table of ours, in the group of the scope that is open."""
        linear.watch()
        column = cls(*stock)
        column.group, column.shared = groups.current(), shared
        return column

    def __eq__(self, other: object) -> bool:
        # Layers know their columns, and whose table is whose, by equality: TensorFlow's kinds for the two differ too.
        return isinstance(other, TableColumn) and self.shared == other.shared and tuple(self) == tuple(other)

    def __ne__(self, other: object) -> bool:
        return not self == other  # the tuple has one of its own

    def __hash__(self) -> int:
        return hash((tuple(self), self.shared))

    def _replace(self, **changes: Any) -> "TableColumn":
        made: TableColumn = super()._replace(**changes)
        made.group, made.shared = self.group, self.shared
        return made

    def _get_config(self) -> Dict[str, Any]:
        return dict(getattr(super(), _GET_CONFIG)(), shared=self.shared)

    @classmethod
    def _from_config(cls, config: Dict[str, Any], custom_objects: Any = None,
                     columns_by_name: Any = None) -> "TableColumn":
        config = dict(config)
        shared = config.pop("shared", None)  # None too in what older releases have written
        column: TableColumn = getattr(super(), _FROM_CONFIG)(config, custom_objects, columns_by_name)
        column.shared = shared
        return column

    if V2:
        get_config, from_config = _get_config, _from_config

    @property
    def name(self) -> str:
        """Of the column: as TensorFlow's."""
        return "{}_{}embedding".format(self.categorical_column.name, "shared_" if self.shared else "")

    @property
    def _var_scope_name(self) -> str:
        return self.shared or self.name

    @graph_code
    def create_state(self, state_manager: Any) -> None:
        """Makes the table, for a layer."""
        layer = state_manager._layer
        with tables.scope_of(layer, self._var_scope_name), tables.shared_scope_of(layer, self.shared, _WEIGHTS) as name:
            table = self._table(state_manager._trainable, None, name)
        state_manager._cols_to_vars_map[self][_WEIGHTS] = table
        if layer is not None:
            tables.add_to_layer(layer, self.name, table)

    @graph_code
    def get_dense_tensor(self, transformation_cache: Any, state_manager: Any) -> tf.Tensor:
        """The embeddings, float32 [B, D]."""
        self._check_sequence(False)
        with lookups.on_host():
            pair = self.categorical_column.get_sparse_tensors(transformation_cache, state_manager)
        return self._looked_up(state_manager.get_variable(self, _WEIGHTS), pair, state_manager._trainable,
                               transformation_cache)

    @graph_code
    def _get_dense_tensor(self, inputs: Any, weight_collections: Any = None, trainable: Any = None) -> tf.Tensor:
        self._check_sequence(False)
        return self._resolved(inputs, weight_collections, trainable)[0]

    @graph_code
    def get_sequence_dense_tensor(self, transformation_cache: Any, state_manager: Any) -> Any:
        """Embeddings float32 [B, T, D], and lengths int64 [B]."""
        self._check_sequence(True)
        with lookups.on_host():
            pair = self.categorical_column.get_sparse_tensors(transformation_cache, state_manager)
        rows = self._looked_up(state_manager.get_variable(self, _WEIGHTS), pair, state_manager._trainable,
                               transformation_cache)
        return v2.SequenceDenseColumn.TensorSequenceLengthPair(
            rows, utils.sequence_length_from_sparse_tensor(pair.id_tensor))

    @graph_code
    def _get_sequence_dense_tensor(self, inputs: Any, weight_collections: Any = None, trainable: Any = None) -> Any:
        self._check_sequence(True)
        rows, pair = self._resolved(inputs, weight_collections, trainable)
        return v1._SequenceDenseColumn.TensorSequenceLengthPair(
            rows, utils.sequence_length_from_sparse_tensor(pair.id_tensor))

    def _resolved(self, inputs: Any, weight_collections: Any, trainable: Any) -> Any:
        """The embeddings, and what they are of, the way of `input_layer`: in the column's variable scope."""
        with lookups.on_host():
            pair = self.categorical_column._get_sparse_tensors(inputs, weight_collections, trainable)
        trainable = trainable is None or bool(trainable)
        table = self._table(trainable, weight_collections)
        return self._looked_up(table, pair, trainable, inputs), pair

    def _table(self, trainable: bool, collections: Any, name: str = _WEIGHTS) -> EmbeddingVariable:
        def make() -> EmbeddingVariable:
            return tables.get(name, self.categorical_column, self.dimension, self.initializer,
                              self.trainable and trainable, collections)

        if not self.shared:
            return make()
        # As TensorFlow's shared columns do: a collection of the graph has the one table.
        found = tf.get_collection_ref(self.shared)
        if not found:
            found.append(make())
        table = found[0]
        remedy = "choose another shared_embedding_collection_name"
        if len(found) > 1 or not isinstance(table, EmbeddingVariable):
            raise ValueError("column '{}': collection '{}': got {}, expected one table: {}".format(
                self.name, self.shared, found, remedy))
        tables.check(table, self.categorical_column, self.dimension, remedy)
        return table

    def _looked_up(self, table: EmbeddingVariable, pair: Any, trainable: bool, resolver: Any) -> tf.Tensor:
        return lookups.look_up(table, self.categorical_column, pair, self.combiner, self.max_norm,
                               self.trainable and trainable, self.group, resolver)

    def _check_sequence(self, expected: bool) -> None:
        of_sequence = isinstance(self.categorical_column, (v2.SequenceCategoricalColumn,
                                                           v1._SequenceCategoricalColumn))
        if of_sequence == expected:
            return
        raise ValueError((
            "column '{}': got a categorical column of sequences, expected one without: make it by "
            "categorical_column_with_..., or resolve it by tf.keras.experimental.SequenceFeatures" if of_sequence else
            "column '{}': got a categorical column without sequences, expected one of sequences: make it by "
            "tf.feature_column.sequence_categorical_column_with_..., or resolve it by input_layer or "
            "DenseFeatures").format(self.name))

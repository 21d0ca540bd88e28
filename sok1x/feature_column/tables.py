"""The table of a feature column, under the name that TensorFlow's variable would have."""
import contextlib
import copy
import re
from typing import Any, Iterable, Iterator, Optional

import tensorflow.compat.v1 as tf

from sok1x import launch
from sok1x.core import joining
from sok1x.core.eagerly import eager
from sok1x.core.embedding_variable import EmbeddingVariable
from sok1x.core.frameworks import keras_attributes
from sok1x.core.graph_keys import GraphKeys
from sok1x.core.options import initializers
from sok1x.core.tables import scoped_tables, table_root
from sok1x.deeprec import stepping, variables
from sok1x.feature_column.key_column import key_column_of
from sok1x.graph_ops.bridge.tensorflow_versions import dense_features_v2, is_eager_outside, tf_ops, variable_scope
from sok1x.graph_ops.bridge.tensorflow_versions import keras_backend as backend
from sok1x.variable import Variable

# Scopes, or layers, of canned Estimators: there TensorFlow's shared columns are those of `shared_embedding_columns`,
# and in Keras' layers those of `shared_embeddings`.
_LINEAR = "linear_model"
_CANNED = ("input_from_feature_columns", _LINEAR)


def get(name: str, categorical_column: Any, dimension: int, initializer: Any, trainable: bool,
        collections: Optional[Iterable[str]] = None) -> EmbeddingVariable:
    """A column's table, made or found again in the current variable scope; it joins the ranks if nothing has yet.

    Over keys it is one that grows; over a categorical column of TensorFlow's one of that column's number of buckets,
    whose row k is on rank k % N.

    Args:
        name: below the variable scope's name.
        categorical_column: what has the ids.
        dimension: D.
        initializer: as of `embedding_column`.
        trainable: whether optimizers train it by default.
        collections: that it is to be in, besides those that every table is in.

    Returns:
        The table.

    Raises:
        TypeError: an initializer that is none.
        ValueError: as `scoped_tables.get`; or the table that is there is of other buckets or another D.

    Example:
        >>> import tensorflow as tf
        >>> from sok1x.feature_column import tables
        >>> with tf.Graph().as_default(), tf.variable_scope("ads"):
        ...     column = tf.feature_column.categorical_column_with_identity("ad", 100)
        ...     tables.get("weights", column, 8, tf.ones_initializer(), True).m_var_name
        'ads/weights'
    """
    if launch.current() is None:
        joining.init()
    keys = key_column_of(categorical_column)
    if keys is not None:
        table = variables.get_embedding_variable(name, dimension, tf.int64, tf.float32, initializer,
                                                 trainable=trainable, ev_option=keys.ev_option)
    else:
        buckets = int(categorical_column._num_buckets)
        stepping.watch()  # as get_embedding_variable does
        table = scoped_tables.get(name, lambda whole, constraint: _of_buckets(
            whole, buckets, dimension, initializer, trainable, constraint), dtype=tf.float32)
    check(table, categorical_column, dimension, "take another variable scope")
    for collection in collections or ():
        if not any(table is one for one in tf.get_collection_ref(collection)) and \
                collection != tf.GraphKeys.TRAINABLE_VARIABLES:
            tf.add_to_collection(collection, table)
    return table


def check(table: EmbeddingVariable, categorical_column: Any, dimension: int, remedy: str) -> None:
    """Raises ValueError where a table that was there already is not what a column asks for.

    Args:
        table: the table.
        categorical_column: what has the ids.
        dimension: D.
        remedy: what to do then.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> from sok1x.feature_column import tables
        >>> sok.init()
        >>> with tf.Graph().as_default():
        ...     column = tf.feature_column.categorical_column_with_identity("ad", 100)
        ...     tables.check(sok.Variable(shape=[100, 8], initializer="ones"), column, 8, "take another")
    """
    buckets = None if key_column_of(categorical_column) is not None else int(categorical_column._num_buckets)
    there = table.table.keys  # a table over keys has a row for any bucket
    if table.table.dim != dimension or there not in (None, buckets):
        raise ValueError("column '{}': table '{}' is there already: got one of {} and D={}, expected {} and D={}: "
                         "{}".format(categorical_column.name, table.table.name, _described(there), table.table.dim,
                                     _described(buckets), dimension, remedy))


def _described(buckets: Optional[int]) -> str:
    return "keys" if buckets is None else "{} buckets".format(buckets)


@contextlib.contextmanager
def scope_of(layer: Any, column: str) -> Iterator[None]:
    """The variable scope in which a layer's column makes its table.

    Layers of TensorFlow 1.x open one for each column; DenseFeatures of 2.x name scopes alone, by which no table is
    known. In eager execution a table is the layer's alone, and goes with it.

    Args:
        layer: of Keras or tf.layers, or None.
        column: the column's name.

    Example:
        >>> import tensorflow as tf
        >>> from sok1x.feature_column import tables
        >>> with tf.Graph().as_default(), tables.scope_of(None, "ad_embedding"):
        ...     tf.get_variable_scope().name
        ''
    """
    kind = None if layer is None else dense_features_v2()
    named = kind is not None and isinstance(layer, kind)
    scope = tf.variable_scope("{}/{}".format(layer.name, re.sub("[^A-Za-z0-9_.-]", "_", column))  # as TensorFlow's
                              ) if named else contextlib.nullcontext()
    with scope:
        store = variable_scope._get_default_variable_store()._vars
        before = set(store)
        yield
        if layer is not None and is_eager_outside():
            for name in set(store) - before:
                del store[name]


@contextlib.contextmanager
def shared_scope_of(layer: Any, shared: Optional[str], name: str) -> Iterator[str]:
    """Inside `scope_of`: the variable scope in which a table that columns share is made, whichever comes first.

    TensorFlow's scope has the name of the column that makes the table; so had tables before, which checkpoints of then
    know by that name. It stays where TensorFlow would make no variable of the other: no name may be so, or one is.

    Args:
        layer: as for `scope_of`.
        shared: the name of what is shared; None: nothing is, and nothing changes.
        name: what the table is called below the scope, where that has the column's name.

    Returns:
        What it is called below this scope.

    Example:
        >>> import tensorflow as tf
        >>> from sok1x.feature_column import tables
        >>> layer = tf.keras.layers.Layer(name="tower")
        >>> with tf.Graph().as_default(), tf.variable_scope("model/tower/ad_shared_embedding"):
        ...     with tables.shared_scope_of(layer, "ads", "embedding_weights") as name:
        ...         tf.get_variable_scope().name, name
        ('model', 'ads')
    """
    scope = copy.copy(tf.get_variable_scope())
    above, within, _ = ("/" + scope.name).rpartition("/{}/".format(getattr(layer, "name", "")))
    if shared is None or not within:
        yield name
        return
    former: Optional[str] = "{}/{}".format(scope.name, name)
    if any(former in (one.table.name, one.table.saved_name) for one in eager.collected(
            tf.get_default_graph(), GraphKeys.GLOBAL_EMBEDDING_VARIABLES) if hasattr(one, "table")):
        former = None  # what was saved so is that one's
    if layer.name in _CANNED or above.rpartition("/")[2] in _CANNED:
        last = shared.rpartition("/")[2] if layer.name == _LINEAR else shared  # as TensorFlow's linear models do
        path, below = "{}/{}/{}".format(above, layer.name, last), name
    else:
        path, below = above, shared
    whole = "{}/{}".format(path, below)[1:] if path else below
    there = variable_scope._get_default_variable_store()._vars
    # TensorFlow 2's expression lets a backslash pass, of which no op can be.
    if not tf_ops._VALID_OP_NAME_REGEX.fullmatch(whole) or "\\" in whole or (whole in there and not scope.reuse):
        yield name
        return
    scope._name, name = path[1:], below
    with tf.variable_scope(scope, auxiliary_name_scope=False), table_root.former.entered(former):
        yield name


def add_to_layer(layer: Any, name: str, table: EmbeddingVariable, only_rows: bool = False) -> None:
    """Keras then saves and counts a table's variables with the layer's, and initializes them.

    Args:
        layer: of Keras or tf.layers.
        name: the column's.
        table: whose variables.
        only_rows: whether the rows are all that is counted as the layer's.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> from sok1x.feature_column import tables
        >>> sok.init()
        >>> with tf.Graph().as_default():
        ...     layer, table = tf.keras.layers.Layer(), sok.Variable([[1.0, 2.0], [3.0, 4.0]])
        ...     tables.add_to_layer(layer, "ads", table)
        ...     layer.trainable_weights[0] is table
        True
    """
    others = keras_attributes.beside(table)
    for variable in others if only_rows else ():
        backend.track_variable(variable)
    with keras_attributes.only_rows.entered(only_rows or None):
        setattr(layer, "_sok1x_table_of_{}".format(name), [table] + ([] if only_rows else others))


def _of_buckets(name: str, buckets: int, dimension: int, initializer: Any, trainable: bool,
                constraint: Any) -> EmbeddingVariable:
    if initializers.is_distribution(initializer):
        return Variable(shape=[buckets, dimension], initializer=initializers.ByKey(initializer), trainable=trainable,
                        name=name, constraint=constraint)
    # Something that gives values for a whole matrix: what TensorFlow's variable would have, of which each rank takes
    # its rows.
    return Variable(lambda: initializers.filled(initializer, buckets, dimension, "float32"), trainable=trainable,
                    name=name, constraint=constraint)

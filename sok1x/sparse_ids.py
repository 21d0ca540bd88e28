"""Ragged and sparse ids as `sok.lookup_sparse` takes them, and the weights that go with them."""
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from sok1x.core.options import key_types
from sok1x.graph_ops.bridge.tensorflow_versions import KerasTensor, tensor_util, tf_ops
from sok1x.graph_ops.operations.sparse_batch import OTHERWISE


class Bags:
    """The ids of samples.

    Args:
        given: as lookups take them: a tf.SparseTensor, or a tf.RaggedTensor with int64 row splits.

    Attributes:
        given: likewise.
        ids: [K].
        indices: int64 [K, 2], the sample of each id in the first column.
        dense_shape: int64 [2], B first.

    Example:
        >>> import tensorflow as tf
        >>> from sok1x import sparse_ids
        >>> with tf.Graph().as_default():
        ...     bags = sparse_ids.Bags(tf.ragged.constant([[7, 8], []]))
        ...     bags.indices.shape.as_list(), bags.ids.shape.as_list()
        ([None, 2], [2])
    """

    def __init__(self, given: Any) -> None:
        self.given, self.ids = given, given.values

    def _sparse(self) -> tf.SparseTensor:
        # Where a lookup takes row splits, nobody asks for it; TensorFlow makes one op of several that are equal.
        return self.given.to_sparse() if isinstance(self.given, tf.RaggedTensor) else self.given

    @property
    def indices(self) -> tf.Tensor:
        """See `Bags`."""
        return self._sparse().indices

    @property
    def dense_shape(self) -> tf.Tensor:
        """See `Bags`."""
        return self._sparse().dense_shape

    def as_keys_of(self, table: Any) -> "Bags":
        """The same with keys of a table, of which `table` is the description, for ids."""
        ids = key_types.keys_of(self.ids, table)
        if isinstance(self.given, tf.RaggedTensor):
            return Bags(tf.RaggedTensor.from_row_splits(ids, self.given.row_splits, validate=False))
        return Bags(tf.SparseTensor(self.given.indices, ids, self.given.dense_shape))


def bags_of(table: str, ids: Any, function: str = "lookup_sparse") -> Bags:
    """A table's ids.

    Args:
        table: its name, for messages.
        ids: a tf.RaggedTensor or tf.SparseTensor [B, n] of int32 or int64.
        function: whose argument they are, below `sok1x.`, for messages.

    Returns:
        `Bags`.

    Raises:
        TypeError: another type or dtype.
        ValueError: another rank.

    Example:
        >>> import tensorflow as tf
        >>> from sok1x import sparse_ids
        >>> with tf.Graph().as_default():
        ...     sparse_ids.bags_of("items", tf.ragged.constant([[7, 8], []])).indices.shape.as_list()
        [None, 2]
    """
    values = _expect(function, "sp_ids", table, ids, "ids", (tf.int32, tf.int64))
    if isinstance(ids, tf.RaggedTensor):
        ids = tf.RaggedTensor.from_row_splits(values, tf.cast(ids.row_splits, tf.int64), validate=False)
    return Bags(ids)


def weights_of(table: str, weights: Any, bags: Bags, function: str = "lookup_sparse",
               dtype: tf.DType = tf.float32) -> tf.Tensor:
    """The weights of a table's ids, checked to be as many.

    Args:
        table: its name, for messages.
        weights: a tf.RaggedTensor or tf.SparseTensor [B, n] of floats.
        bags: the ids.
        function: as for `bags_of`.
        dtype: of what is returned.

    Returns:
        [K], of that dtype.

    Raises:
        TypeError: another type or dtype.
        ValueError: another rank, or, where the graph knows it, another number.

    Example:
        >>> import tensorflow as tf
        >>> from sok1x import sparse_ids
        >>> with tf.Graph().as_default():
        ...     bags = sparse_ids.bags_of("items", tf.ragged.constant([[7, 8], []]))
        ...     sparse_ids.weights_of("items", tf.ragged.constant([[0.5, 2.0], []]), bags).dtype
        tf.float32
    """
    values = _expect(function, "sp_weights", table, weights, "weights", (tf.float16, tf.float32, tf.float64))
    if not values.shape.is_compatible_with(bags.ids.shape):
        raise ValueError("sok1x.{}: sp_weights: got {} weights for {} ids of '{}', expected one for each "
                         "id".format(function, values.shape[0], bags.ids.shape[0], table))
    return tf.cast(values, dtype)


def lying_as(table: str, weights: Any, bags: Bags, function: str = "lookup_sparse") -> Bags:
    """A table's ids, whose lookup fails where their weights lie in other places than they do.

    Where both have one and the same tensor of row splits or indices there is nothing to compare.

    Args:
        table: its name, for messages.
        weights: as `weights_of` takes them.
        bags: the ids.
        function: as for `bags_of`.

    Returns:
        `Bags`.

    Raises:
        ValueError: the graph shows that they do.

    Example:
        >>> import tensorflow as tf
        >>> from sok1x import sparse_ids
        >>> with tf.Graph().as_default():
        ...     ids = tf.ragged.constant([[7, 8], []], row_splits_dtype=tf.int64)
        ...     bags = sparse_ids.bags_of("items", ids)
        ...     sparse_ids.lying_as("items", ids.with_values(tf.constant([0.5, 2.0])), bags) is bags
        True
    """
    ragged, places, others = _compared(table, weights, bags, function)
    if others is None:
        return bags
    # What is too short is filled up by the ids' own: then there are too few weights, or rows without ids.
    others = tf.concat([others, places], 0)[:tf.shape(places)[0]]
    same = tf.equal(places, others)
    if not ragged:
        same = tf.reduce_all(same, 1, keepdims=True)
    made = tf.where_v2(same, places, tf.constant(OTHERWISE, tf.int64))
    made.set_shape(places.shape)
    if ragged:
        return Bags(tf.RaggedTensor.from_row_splits(bags.ids, made, validate=False))
    return Bags(tf.SparseTensor(made, bags.ids, bags.dense_shape))


def weights_in_place(table: str, weights: Any, values: tf.Tensor, bags: Bags, function: str) -> tf.Tensor:
    """The weights of a table's ids, which fail where they lie in other places than the ids do: for what combines rows
    itself.

    Args:
        table, weights, bags, function: as `lying_as` takes them.
        values: [K], as `weights_of` gives them.

    Returns:
        The values.

    Raises:
        ValueError: the graph shows that they do.

    Example:
        >>> import tensorflow as tf
        >>> from sok1x import sparse_ids
        >>> with tf.Graph().as_default():
        ...     ids = tf.ragged.constant([[7, 8], []], row_splits_dtype=tf.int64)
        ...     bags, weights = sparse_ids.bags_of("items", ids), tf.ragged.constant([[0.5, 2.0], []])
        ...     values = sparse_ids.weights_of("items", weights, bags)
        ...     sparse_ids.weights_in_place("items", weights, values, bags, "lookup").shape.as_list()
        [2]
    """
    ragged, places, others = _compared(table, weights, bags, function)
    if others is None:
        return values
    with tf_ops.colocate_with(None, ignore_existing=True), tf.device("/device:CPU:0"):  # the words are there
        # What is of other shapes is not equal, one False; but one place is to any number of them that are alike.
        equal = tf.raw_ops.Equal(x=places, y=others, incompatible_shape_error=False)
        same = tf.reduce_all(tf.equal(tf.shape(places), tf.shape(others))) & tf.reduce_all(tf.reshape(equal, [-1]))
        check = tf.raw_ops.Assert(condition=same, data=[
            "sok1x.{}: sp_weights: got other {} for '{}' than those of the ids, expected a weight for each id in the "
            "same place: got, and the ids':".format(function, _kind(ragged), table), others, places], summarize=20)
    if tf.executing_eagerly():
        return values
    with tf.control_dependencies([check]):
        return tf.identity(values)


def _compared(table: str, weights: Any, bags: Bags, function: str) -> Any:
    """(whether they are row splits, the ids' places, the weights'); the last is None where these are known to be equal.
    """
    ragged = isinstance(weights, tf.RaggedTensor) and isinstance(bags.given, tf.RaggedTensor)
    places, others = (bags.given.row_splits, weights.row_splits) if ragged else (bags.indices, Bags(weights).indices)
    if _source(places) is _source(others):
        return ragged, places, None
    if not tf.executing_eagerly():
        known, other = tensor_util.constant_value(places), tensor_util.constant_value(others)
        if known is not None and other is not None:
            if not np.array_equal(known, other):
                raise ValueError("sok1x.{}: sp_weights: got {} {} for '{}', expected those of the ids, {}: a weight "
                                 "for each id in the same place".format(function, _kind(ragged), _in_a_line(other),
                                                                        table, _in_a_line(known)))
            return ragged, places, None
    return ragged, places, tf.cast(others, tf.int64)


def _kind(ragged: bool) -> str:
    return "row splits" if ragged else "indices"


def _in_a_line(numbers: np.ndarray) -> str:
    return " ".join(np.array2string(numbers, threshold=20).split())


def _source(tensor: tf.Tensor) -> tf.Tensor:
    """What row splits were before they were of int64."""
    while hasattr(tensor, "graph") and tensor.op.type in ("Cast", "Identity"):
        tensor = tensor.op.inputs[0]
    return tensor


def expect_no_symbol(function: str, what: str, table: str, given: Any) -> None:
    """Refuses a symbol of a Keras model: what looks it up would be no layer that has the table, and train nothing.

    Args:
        function: as for `bags_of`.
        what: its argument.
        table: the table's name.
        given: what it was given.

    Raises:
        TypeError: it is such a symbol.

    Example:
        >>> from sok1x import sparse_ids
        >>> sparse_ids.expect_no_symbol("lookup_sparse", "sp_ids", "items", 7)  # nothing
    """
    if KerasTensor is not None and isinstance(given, KerasTensor):
        raise TypeError("sok1x.{}: {}: got a symbol of a Keras model (what tf.keras.Input gives, or is made of it) for "
                        "'{}', expected a tensor: the lookup would be no layer that has the table, and nothing would "
                        "train it. Call it in the `call` of a layer or model that has the table as an attribute, or "
                        "use sok1x.All2AllDenseEmbedding or sok1x.DistributedEmbedding, which are layers".format(
                            function, what, table))


def _expect(function: str, what: str, table: str, given: Any, things: str, dtypes: Any) -> tf.Tensor:
    """The values [K] of a ragged or sparse tensor of rank 2."""
    expect_no_symbol(function, what, table, given)
    if not isinstance(given, (tf.RaggedTensor, tf.SparseTensor)):
        raise TypeError("sok1x.{}: {}: got {!r} of type {} for '{}', expected a tf.RaggedTensor or tf.SparseTensor of "
                        "{}; {}".format(function, what, given, type(given).__name__, table, things, (
                            "use sok1x.all2all_dense_embedding for a dense tensor of ids" if what == "sp_ids" else
                            "one float for each id, in rows as long as those of the ids: for weights [K] "
                            "ids.with_values(weights) of ragged ids, and tf.SparseTensor(ids.indices, weights, "
                            "ids.dense_shape) of sparse ones")))
    if given.dtype not in dtypes:
        raise TypeError("sok1x.{}: {}: got {} of dtype {} for '{}', expected {}; cast them with "
                        "tf.cast".format(
            function, what, things, given.dtype.name, table, " or ".join(dtype.name for dtype in dtypes)))
    if given.shape.rank not in (2, None):
        raise ValueError("sok1x.{}: {}: got {} of shape {} for '{}', expected [B, n]: a sample's {} in each "
                         "row".format(function, what, things, given.shape, table, things))
    values = given.flat_values if isinstance(given, tf.RaggedTensor) else given.values
    if values.shape.rank not in (1, None):
        raise ValueError("sok1x.{}: {}: got values of shape {} for '{}', expected [K]".format(
            function, what, values.shape, table))
    return values

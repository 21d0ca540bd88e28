"""Ragged and sparse ids as `sok.lookup_sparse` takes them, and the weights that go with them."""
from typing import Any

import tensorflow.compat.v1 as tf

from sok1x.core import key_types


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
        ids: a tf.RaggedTensor or tf.SparseTensor [B, …] of int32 or int64.
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


def weights_of(table: str, weights: Any, bags: Bags, function: str = "lookup_sparse") -> tf.Tensor:
    """The weights of a table's ids, checked to be as many.

    Args:
        table: its name, for messages.
        weights: a tf.RaggedTensor or tf.SparseTensor [B, …] of floats.
        bags: the ids.
        function: as for `bags_of`.

    Returns:
        float32 [K].

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
    return tf.cast(values, tf.float32)


def _expect(function: str, what: str, table: str, given: Any, things: str, dtypes: Any) -> tf.Tensor:
    """The values [K] of a ragged or sparse tensor of rank 2."""
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
        raise ValueError("sok1x.{}: {}: got {} of shape {} for '{}', expected [B, …]: a sample's {} in each "
                         "row".format(function, what, things, given.shape, table, things))
    values = given.flat_values if isinstance(given, tf.RaggedTensor) else given.values
    if values.shape.rank not in (1, None):
        raise ValueError("sok1x.{}: {}: got values of shape {} for '{}', expected [K]".format(
            function, what, values.shape, table))
    return values

"""Ragged and sparse ids as `sok.lookup_sparse` takes them, and the weights that go with them."""
from typing import Any, NamedTuple

import tensorflow.compat.v1 as tf


class Bags(NamedTuple):
    """The ids of samples, as of a tf.SparseTensor.

    Attributes:
        indices: int64 [K, 2], the sample of each id in the first column.
        ids: [K].
        dense_shape: int64 [2], B first.
    """

    indices: tf.Tensor
    ids: tf.Tensor
    dense_shape: tf.Tensor


def bags_of(table: str, ids: Any) -> Bags:
    """A table's ids.

    Args:
        table: its name, for messages.
        ids: a tf.RaggedTensor or tf.SparseTensor [B, …] of int32 or int64.

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
    values = _expect("sp_ids", table, ids, "ids", (tf.int32, tf.int64))
    if isinstance(ids, tf.RaggedTensor):
        ids = ids.to_sparse()  # one op; its values are those given
    return Bags(ids.indices, values, ids.dense_shape)


def weights_of(table: str, weights: Any, bags: Bags) -> tf.Tensor:
    """The weights of a table's ids, checked to be as many.

    Args:
        table: its name, for messages.
        weights: a tf.RaggedTensor or tf.SparseTensor [B, …] of floats.
        bags: the ids.

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
    values = _expect("sp_weights", table, weights, "weights", (tf.float16, tf.float32, tf.float64))
    if not values.shape.is_compatible_with(bags.ids.shape):
        raise ValueError("sok1x.lookup_sparse: sp_weights: got {} weights for {} ids of '{}', expected one for each "
                         "id".format(values.shape[0], bags.ids.shape[0], table))
    return tf.cast(values, tf.float32)


def _expect(what: str, table: str, given: Any, things: str, dtypes: Any) -> tf.Tensor:
    """The values [K] of a ragged or sparse tensor of rank 2."""
    if not isinstance(given, (tf.RaggedTensor, tf.SparseTensor)):
        raise TypeError("sok1x.lookup_sparse: {}: got {!r} of type {} for '{}', expected a tf.RaggedTensor or "
                        "tf.SparseTensor of {}; use sok1x.all2all_dense_embedding for a dense tensor of ids".format(
                            what, given, type(given).__name__, table, things))
    if given.dtype not in dtypes:
        raise TypeError("sok1x.lookup_sparse: {}: got {} of dtype {} for '{}', expected {}; cast them with "
                        "tf.cast".format(
            what, things, given.dtype.name, table, " or ".join(dtype.name for dtype in dtypes)))
    if given.shape.rank not in (2, None):
        raise ValueError("sok1x.lookup_sparse: {}: got {} of shape {} for '{}', expected [B, …]: a sample's {} in each "
                         "row".format(what, things, given.shape, table, things))
    values = given.flat_values if isinstance(given, tf.RaggedTensor) else given.values
    if values.shape.rank not in (1, None):
        raise ValueError("sok1x.lookup_sparse: {}: got values of shape {} for '{}', expected [K]".format(
            what, values.shape, table))
    return values

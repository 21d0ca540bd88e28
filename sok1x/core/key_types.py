"""Ids that are looked up, as keys of a table's type: none becomes another key's."""
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf


def keys_of(ids: tf.Tensor, table: Any) -> tf.Tensor:
    """Ids as a table's keys. int32 and uint32 of the same 32 bits are the same key, as in SOK.

    Args:
        ids: integers of any shape.
        table: its description, `graph_ops.stores.table.Table`.

    Returns:
        The keys, of the table's type and of the same shape.

    Raises:
        tf.errors.InvalidArgumentError: (when run) an int64 id is beyond the 32 bits of the table's keys.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> from sok1x.core import key_types
        >>> with tf.Graph().as_default():
        ...     items = sok.DynamicVariable(dimension=2, key_type=tf.int32)
        ...     key_types.keys_of(tf.constant([7], tf.int64), items.table).dtype
        tf.int32
    """
    if ids.dtype != tf.int64 or table.key_dtype == "int64":
        return tf.cast(ids, table.key_dtype)
    limits = np.iinfo(table.key_dtype)
    inside = tf.logical_and(ids >= limits.min, ids <= limits.max)
    check = tf.debugging.Assert(tf.reduce_all(inside), [
        "embedding table '{}': got ids beyond the keys of its key_type {}, expected ids in [{}, {}], or a table of "
        "key_type int64:".format(table.name, table.key_dtype, limits.min, limits.max),
        tf.boolean_mask(ids, tf.logical_not(inside))])
    with tf.control_dependencies([] if check is None else [check]):
        return tf.cast(ids, table.key_dtype)

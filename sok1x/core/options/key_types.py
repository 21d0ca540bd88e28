"""Ids that are looked up, as keys of a table's type: none becomes another key's."""
from typing import Any

import tensorflow.compat.v1 as tf


def keys_of(ids: tf.Tensor, table: Any) -> tf.Tensor:
    """Ids as a table's keys. int32 and uint32 of the same 32 bits are the same key, as in SOK.

    Ids of int64 (and uint64, of the same bits) stay as they are: where a table has keys of 32 bits, the op that takes
    them looks at each, as it does at other keys that a table cannot have, so that all ranks hear of one beyond these.

    Args:
        ids: integers of any shape.
        table: its description, `graph_ops.stores.table.Table`.

    Returns:
        The keys, of the table's type or int64, and of the same shape.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> from sok1x.core.options import key_types
        >>> with tf.Graph().as_default():
        ...     items = sok.DynamicVariable(dimension=2, key_type=tf.uint32)
        ...     key_types.keys_of(tf.constant([7], tf.int32), items.table).dtype
        tf.uint32
    """
    return tf.cast(ids, tf.int64 if ids.dtype in (tf.int64, tf.uint64) else table.key_dtype)

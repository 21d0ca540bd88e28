"""The rows of a table whose keys are elsewhere, as Keras' .keras and HDF5 files have them, do not make a table."""
from typing import Any

import tensorflow.compat.v1 as tf


def refuse(variable: Any, value: Any) -> None:
    """Raises, eagerly, where rows are assigned whose keys the table does not have.

    Args:
        variable: a DynamicVariable.
        value: its new value.

    Raises:
        ValueError: the value has another number of rows than the table, or the table has no keys.

    Example:
        >>> import tensorflow as tf
        >>> from sok1x.core import rows_alone
        >>> with tf.Graph().as_default():
        ...     rows_alone.refuse(None, None)  # no eager execution: nothing is refused
    """
    if not tf.executing_eagerly():
        return
    there, given = int(tf.shape(variable.read_value())[0]), tf.convert_to_tensor(value).shape[0]
    keys = int(variable.rows_in_use())
    if given == there and keys > 0:
        return
    raise ValueError((
        "sok1x: assign: '{}': got {} rows for a table that has {}, {} of them in use: rows alone, as Keras' .keras and "
        ".h5 files have them of a DynamicVariable, do not say whose they are. Save and restore such a model with "
        "save_weights(path) in TensorFlow's format (no .h5), tf.train.Checkpoint or sok.CheckpointManager; "
        "sok.assign(table, keys, values) gives rows to keys").format(variable.table.name, given, there, keys))

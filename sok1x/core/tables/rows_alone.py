"""The rows of a table whose keys are elsewhere, as Keras' .keras and HDF5 files have them, do not make a table."""
from typing import Any, List

import tensorflow.compat.v1 as tf

from sok1x.graph_ops.bridge.tensorflow_versions import resource_variable_ops

_WORDS = ("sok1x: assign: '{}': got {}: rows alone, as Keras' .keras and .h5 files have them of a DynamicVariable, do "
          "not say whose they are. Save and restore such a model with save_weights(path) in TensorFlow's format (no "
          ".h5), tf.train.Checkpoint or sok.CheckpointManager; sok.assign(table, keys, values) gives rows to keys")


def checks(variable: Any, value: Any) -> List[tf.Operation]:
    """Ops that fail where rows are assigned whose keys the table does not have: where the value has another number of
    rows, and where it comes from elsewhere, an array or what is fed, for a table that has no keys.

    Args:
        variable: a DynamicVariable.
        value: its new value.

    Returns:
        Of a graph, the ops, for what assigns to depend on; eagerly none.

    Raises:
        ValueError: eagerly, such rows.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     table = sok.DynamicVariable(dimension=2, init_capacity=4)
        ...     _ = session.run(tf.global_variables_initializer())
        ...     try:
        ...         session.run(table.assign(tf.ones([8, 2])))
        ...     except tf.errors.InvalidArgumentError as error:
        ...         print("rows alone" in str(error))
        True
    """
    given = tf.convert_to_tensor(value, variable.dtype.base_dtype)
    table = variable.table.name
    if tf.executing_eagerly():
        there, keys = int(tf.shape(variable.read_value())[0]), int(variable.rows_in_use())
        if given.shape[0] == there and (keys > 0 or isinstance(value, tf.Tensor)):
            return []
        raise ValueError(_WORDS.format(table, "{} rows for a table that has {}, {} of them in use".format(
            given.shape[0], there, keys)))
    there = resource_variable_ops.variable_shape(variable.handle)[0]
    found = [tf.debugging.assert_equal(tf.shape(given)[0], there, message=_WORDS.format(
        table, "another number of rows than the table has"))]
    if given.op.type == "Placeholder":
        found.append(tf.debugging.assert_positive(variable.rows_in_use(), message=_WORDS.format(
            table, "rows for a table without keys")))
    return found

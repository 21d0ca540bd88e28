"""The one number that all rows of an optimizer's slot begin with, read off what the optimizer says."""
from typing import Optional

import tensorflow.compat.v1 as tf

from sok1x.graph_ops.bridge.tensorflow_versions import tensor_util


def number_of(table: str, slot: str, example: tf.Tensor) -> float:
    """What all rows of a slot of a table that grows begin with.

    Args:
        table: its name.
        slot: the slot's name, for messages.
        example: the slot's initial value, of its dtype, perhaps for one row alone: [n, ...].

    Returns:
        The number.

    Raises:
        ValueError: it is not one number for all rows and columns, or not known yet.

    Example:
        >>> import tensorflow as tf
        >>> from sok1x.core import slot_numbers
        >>> with tf.Graph().as_default():
        ...     slot_numbers.number_of("items", "items/accumulator", tf.fill([1, 4], 0.5))
        0.5
    """
    value = _number(example)
    if value is None or example.dtype.base_dtype.size not in (4, 8):
        raise ValueError((
            "slot '{}' of table '{}', which grows: got an initial value of {} that is not one number, known when the "
            "graph is built, for all rows and columns; rows that come later would not know what to begin with").format(
                slot, table, example.dtype.base_dtype.name))
    return value


def _number(tensor: tf.Tensor) -> Optional[float]:
    """The number that all elements of a tensor are; None where that is not certain."""
    kind = tensor.op.type if hasattr(tensor, "graph") else "Eager"
    if kind in ("ZerosLike", "OnesLike"):
        return float(kind == "OnesLike")
    if kind in ("Identity", "Cast", "Reshape", "PlaceholderWithDefault"):
        return _number(tensor.op.inputs[0])
    values = tensor_util.constant_value(tensor.op.inputs[1] if kind == "Fill" else tensor)
    if values is None or not values.size or (values != values.flat[0]).any():
        return None
    return float(values.flat[0])

"""What an optimizer says that a slot of a table that grows begins with: one number, read off the graph."""
import functools
from typing import Any, Optional, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

from sok1x.graph_ops.bridge.tensorflow_versions import tensor_util


def example(given: Any, dim: int, shapes_known: bool) -> Tuple[tf.Tensor, bool]:
    """What a variable that is made beside a table that grows begins with, perhaps for one row alone.

    Args:
        given: its initial value: a tensor, or what makes one when called.
        dim: D of the table.
        shapes_known: whether the table passes itself off as one of a single row.

    Returns:
        (a tensor, whether it has the rows of the table).

    Example:
        >>> import tensorflow as tf
        >>> from sok1x.core.tables import slot_beginnings
        >>> with tf.Graph().as_default():
        ...     slot_beginnings.example(lambda: tf.ones([1, 4]), 4, shapes_known=True)[1]
        True
    """
    if isinstance(given, functools.partial):
        shape = given.keywords.get("shape")
        if isinstance(shape, tf.TensorShape) and shape.rank and tf.dimension_value(shape[0]) is None:  # Keras says so
            return given.func(*given.args, **{**given.keywords, "shape": tf.TensorShape([1, dim])}), True
    value = tf.convert_to_tensor(given() if callable(given) else given)
    if value.shape.rank is None:
        return value, True
    rows = 1 if shapes_known else None
    return value, bool(value.shape.rank) and tf.dimension_value(value.shape[0]) == rows


class SlotError(ValueError):
    """A slot of a table that grows cannot be made: the message says why, and what to do."""


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
        >>> from sok1x.core.tables import slot_beginnings
        >>> with tf.Graph().as_default():
        ...     slot_beginnings.number_of("items", "items/accumulator", tf.fill([1, 4], 0.5))
        0.5
    """
    value = _number(example)
    if value is None or example.dtype.base_dtype.size not in (4, 8):
        raise SlotError((
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
    if kind == "Mul":  # a number times ones, as TensorFlow 2's Ftrl has it
        dtype, factors = tensor.dtype.base_dtype.as_numpy_dtype, [_number(factor) for factor in tensor.op.inputs]
        return None if None in factors else float(np.prod(np.array(factors, dtype), dtype=dtype))
    values = tensor_util.constant_value(tensor.op.inputs[1] if kind == "Fill" else tensor)
    if values is None or not values.size or (values != values.flat[0]).any():
        return None
    return float(values.flat[0])

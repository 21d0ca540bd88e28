"""Checks of what a layer is constructed with."""
import numbers
from typing import Any

import tensorflow.compat.v1 as tf

KEY_DTYPES = ("int64", "uint32", "int32")
_MOST_ROWS = 2 ** 31 - 1  # row numbers are int32


def positive_integer(layer: str, what: str, value: Any, most: int = _MOST_ROWS) -> int:
    """An argument that must be a positive integer.

    Args:
        layer: the layer's name, for the message.
        what: the argument's name, for the message.
        value: what was given.
        most: the largest value allowed.

    Returns:
        The value as a Python int.

    Raises:
        TypeError: it is no integer.
        ValueError: it is not in [1, most].

    Example:
        >>> from sok1x.embeddings import arguments
        >>> arguments.positive_integer("layer", "slot_num", 10)
        10
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError("layer '{}': {}: got {!r} of type {}, expected a positive integer".format(
            layer, what, value, type(value).__name__))
    if not 1 <= int(value) <= most:
        raise ValueError("layer '{}': {}: got {}, expected an integer from 1 to {}".format(layer, what, value, most))
    return int(value)


def boolean(layer: str, what: str, value: Any) -> bool:
    """An argument that must be True or False.

    Args:
        layer: the layer's name, for the message.
        what: the argument's name, for the message.
        value: what was given.

    Returns:
        The value.

    Raises:
        TypeError: it is neither True nor False.

    Example:
        >>> from sok1x.embeddings import arguments
        >>> arguments.boolean("layer", "use_hashtable", False)
        False
    """
    if not isinstance(value, bool):
        raise TypeError("layer '{}': {}: got {!r} of type {}, expected True or False".format(
            layer, what, value, type(value).__name__))
    return value


def one_of(layer: str, what: str, value: Any, choices: Any) -> str:
    """An argument that must be one of some words, in any case.

    Args:
        layer: the layer's name, for the message.
        what: the argument's name, for the message.
        value: what was given.
        choices: the words, in lower case.

    Returns:
        The word in lower case.

    Raises:
        TypeError: it is no string.
        ValueError: it is none of the words.

    Example:
        >>> from sok1x.embeddings import arguments
        >>> arguments.one_of("layer", "combiner", "Mean", ("sum", "mean"))
        'mean'
    """
    if not isinstance(value, str):
        raise TypeError("layer '{}': {}: got {!r} of type {}, expected one of {}".format(
            layer, what, value, type(value).__name__, ", ".join(map(repr, choices))))
    if value.lower() not in choices:
        raise ValueError("layer '{}': {}: got {!r}, expected one of {}".format(
            layer, what, value, ", ".join(map(repr, choices))))
    return value.lower()


def key_dtype(layer: str, value: Any) -> tf.DType:
    """The dtype of a table's keys.

    Args:
        layer: the layer's name, for the message.
        value: None (int64), a tf or NumPy dtype, or its name.

    Returns:
        tf.int64, tf.uint32 or tf.int32.

    Raises:
        TypeError: it is no dtype, or not one of these three.

    Example:
        >>> from sok1x.embeddings import arguments
        >>> arguments.key_dtype("layer", None)
        tf.int64
    """
    try:
        dtype = tf.int64 if value is None else tf.as_dtype(value)
    except TypeError:
        dtype = None
    if dtype is None or dtype.name not in KEY_DTYPES:
        raise TypeError("layer '{}': key_dtype: got {!r}, expected one of {}, or None for int64".format(
            layer, value, ", ".join(KEY_DTYPES)))
    return dtype

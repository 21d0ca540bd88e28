"""Checks of what a layer, or a table, is constructed with."""
from typing import Any

import tensorflow.compat.v1 as tf

KEY_DTYPES = ("int64", "uint32", "int32")


def boolean(label: str, what: str, value: Any) -> bool:
    """An argument that must be True or False.

    Args:
        label: whose argument it is, for the message.
        what: the argument's name, for the message.
        value: what was given.

    Returns:
        The value.

    Raises:
        TypeError: it is neither True nor False.

    Example:
        >>> from sok1x.core.options import arguments
        >>> arguments.boolean("layer 'ads'", "use_hashtable", False)
        False
    """
    if not isinstance(value, bool):
        raise TypeError("{}: {}: got {!r} of type {}, expected True or False".format(
            label, what, value, type(value).__name__))
    return value


def one_of(label: str, what: str, value: Any, choices: Any) -> str:
    """An argument that must be one of some words, in any case.

    Args:
        label: whose argument it is, for the message.
        what: the argument's name, for the message.
        value: what was given.
        choices: the words, in lower case.

    Returns:
        The word in lower case.

    Raises:
        TypeError: it is no string.
        ValueError: it is none of the words.

    Example:
        >>> from sok1x.core.options import arguments
        >>> arguments.one_of("layer 'ads'", "combiner", "Mean", ("sum", "mean"))
        'mean'
    """
    if not isinstance(value, str):
        raise TypeError("{}: {}: got {!r} of type {}, expected one of {}".format(
            label, what, value, type(value).__name__, ", ".join(map(repr, choices))))
    if value.lower() not in choices:
        raise ValueError("{}: {}: got {!r}, expected one of {}".format(
            label, what, value, ", ".join(map(repr, choices))))
    return value.lower()


def key_dtype(label: str, value: Any, argument: str = "key_dtype") -> tf.DType:
    """The dtype of a table's keys.

    Args:
        label: whose argument it is, for the message.
        value: None (int64), a tf or NumPy dtype, or its name.
        argument: its name.

    Returns:
        tf.int64, tf.uint32 or tf.int32.

    Raises:
        TypeError: it is no dtype, or not one of these three.

    Example:
        >>> from sok1x.core.options import arguments
        >>> arguments.key_dtype("layer 'ads'", None)
        tf.int64
    """
    try:
        dtype = tf.int64 if value is None else tf.as_dtype(value)
    except TypeError:
        dtype = None
    if dtype is None or dtype.name not in KEY_DTYPES:
        raise TypeError("{}: {}: got {!r}, expected one of {}, or None for int64".format(
            label, argument, value, ", ".join(KEY_DTYPES)))
    return dtype

"""Keeps AutoGraph out of library code."""
import functools
import inspect
from typing import Any, Callable, TypeVar

import tensorflow.compat.v1 as tf

Function = TypeVar("Function", bound=Callable[..., Any])


def graph_code(function: Function) -> Function:
    """Marks a function that AutoGraph must not rewrite; Keras 1.15 otherwise rewrites `call` and all it calls.

    Args:
        function: the function or method.

    Returns:
        The function, marked, with the same signature. TensorFlow's own decorator hides the signature, in which
        Keras looks for `training`.

    Example:
        >>> import inspect
        >>> from sok1x.embeddings.autograph import graph_code
        >>> @graph_code
        ... def double(value, training=True):
        ...     return 2 * value
        >>> inspect.getfullargspec(double).args
        ['value', 'training']
    """
    marked = tf.autograph.experimental.do_not_convert(function)
    functools.update_wrapper(marked, function)
    marked.__signature__ = inspect.signature(function)
    return marked

"""Whether all ranks run a graph alike, step by step, so that one may wait for the others in it."""
import contextlib
from typing import Iterator

import tensorflow.compat.v1 as tf

from sok1x.core.graph_keys import GraphKeys

_always = False


def declare(always: bool) -> None:
    """Says that all graphs are, from now on, whether they have tables or not: DeepRec's collective strategy.

    Args:
        always: whether it is so.

    Example:
        >>> import tensorflow as tf
        >>> from sok1x.core import alike
        >>> alike.declare(True)
        >>> with tf.Graph().as_default():
        ...     alike.is_so()
        True
        >>> alike.declare(False)
    """
    global _always
    _always = always


@contextlib.contextmanager
def not_here() -> Iterator[None]:
    """Inside, this rank does something by itself: graphs without tables are not.

    Example:
        >>> import tensorflow as tf
        >>> from sok1x.core import alike
        >>> alike.declare(True)
        >>> with tf.Graph().as_default(), alike.not_here():
        ...     alike.is_so()
        False
        >>> alike.declare(False)
    """
    global _always
    before, _always = _always, False
    try:
        yield
    finally:
        _always = before


def is_so() -> bool:
    """Whether the default graph is: where it has tables, each rank has some of their rows.

    Returns:
        A bool.

    Example:
        >>> import tensorflow as tf
        >>> from sok1x.core import alike
        >>> with tf.Graph().as_default():
        ...     alike.is_so()
        False
    """
    return _always or bool(tf.get_collection(GraphKeys.GLOBAL_EMBEDDING_VARIABLES))

"""A variable scope that says that what is in it is used again: a layer would have a table of its own all the same.

Code for TensorFlow 1.15 calls one function for training and for evaluation, under `reuse=True` the second time, and
tf.get_variable and tf.layers share what they make. A layer is an object, as Keras' are: made once more it has another
table, which nobody trains, and the evaluation would be of that.
"""
from typing import Any, Optional

import tensorflow.compat.v1 as tf

from sok1x.core.eagerly import eager
from sok1x.core.graph_keys import GraphKeys

_MADE_IN = "_sok1x_made_in"  # of a table: the variable scope, and the layer's name


def check(label: str, name: Optional[str]) -> None:
    """Looks whether the open variable scope lets a layer make a table.

    Args:
        label: the layer, as errors name it.
        name: the layer's name, or None where nobody has given it one.

    Raises:
        ValueError: the scope says reuse=True; or reuse=tf.AUTO_REUSE, and a layer of that name was made in it.

    Example:
        >>> import tensorflow as tf
        >>> from sok1x.embeddings import scope_reuse
        >>> with tf.Graph().as_default(), tf.variable_scope("model"):
        ...     scope_reuse.check("layer 'ads'", "ads")
    """
    if eager.is_on():
        return  # variable scopes are graphs'
    scope = tf.get_variable_scope()
    if not scope.reuse:
        return
    there = any(getattr(table, _MADE_IN, None) == (scope.name, name)
                for table in tf.get_collection(GraphKeys.GLOBAL_EMBEDDING_VARIABLES))
    if scope.reuse is True or (name is not None and there):
        raise ValueError((
            "{}: got variable scope '{}' with reuse={}, {} expected one layer for all its lookups: a layer that is "
            "made once more has a table of its own, which nothing else trains. Make the layer once, outside the "
            "function that builds the model, and call it wherever it is needed; or take a table by name, "
            "sok1x.deeprec.get_embedding_variable, which obeys reuse").format(
                label, scope.name, scope.reuse if scope.reuse is True else "tf.AUTO_REUSE",
                "in which there is a layer of that name," if there and name is not None else "and"))


def note(table: Any, name: Optional[str]) -> None:
    """Keeps in which variable scope a layer of this name has made its table."""
    if not eager.is_on():
        setattr(table, _MADE_IN, (tf.get_variable_scope().name, name))

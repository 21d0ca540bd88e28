"""Tables under `tf.variable_scope`: named, found again and shared as what `tf.get_variable` makes."""
from typing import Any, Callable

import tensorflow.compat.v1 as tf

from sok1x.core.embedding_variable import EmbeddingVariable
from sok1x.graph_ops.bridge.tensorflow_versions import variable_scope


def get(name: str, make: Callable[[str], EmbeddingVariable], reuse: Any = None) -> EmbeddingVariable:
    """A table of the current variable scope: made, or the one that was made under this name before.

    The scope says by `reuse` which of the two is meant, and templates (`tf.make_template`) as well. A plain
    `tf.get_variable` of this name finds the table too.

    Args:
        name: below the variable scope's name.
        make: makes the table, given its whole name.
        reuse: as for `tf.get_variable`; None: as the scope says.

    Returns:
        The table.

    Raises:
        ValueError: as `tf.get_variable`: there is one and the scope does not reuse, or there is none and it must; or
            what is there is no table.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> from sok1x.core import scoped_tables
        >>> sok.init()
        >>> with tf.Graph().as_default():
        ...     def make(name):
        ...         return sok.Variable([[1.0, 2.0], [3.0, 4.0]], name=name)
        ...     with tf.variable_scope("ads"):
        ...         table = scoped_tables.get("items", make)
        ...     with tf.variable_scope("ads", reuse=True):
        ...         scoped_tables.get("items", make) is table, table.m_var_name
        (True, 'ads/items')
    """
    return tf.get_variable_scope().get_variable(
        variable_scope._get_default_variable_store(), name, reuse=reuse,
        custom_getter=lambda getter, name, reuse=None, **ignored: _got(name, reuse, make))


def _got(name: str, reuse: Any, make: Callable[[str], EmbeddingVariable]) -> EmbeddingVariable:
    variables = variable_scope._get_default_variable_store()._vars
    found = variables.get(name)
    if found is None:
        if reuse is True:
            raise ValueError("table '{}': there is none, and the variable scope says reuse=True: make it first, "
                             "without reuse, or set reuse=tf.AUTO_REUSE in the scope".format(name))
        with tf.name_scope(None):  # the name is whole
            found = variables[name] = make(name)
        return found
    if not reuse:
        raise ValueError("table '{}': there is one already, and the variable scope does not say that it is to be used "
                         "again: set reuse=True or reuse=tf.AUTO_REUSE in the scope, or take another name".format(name))
    if not isinstance(found, EmbeddingVariable):
        raise ValueError("table '{}': got a variable of this name that is no table of sok1x, of type {}: take another "
                         "name".format(name, type(found).__name__))
    return found

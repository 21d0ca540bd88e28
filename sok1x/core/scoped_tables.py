"""Tables under `tf.variable_scope`: named, found again and shared as what `tf.get_variable` makes."""
from typing import Any, Callable, Dict

import tensorflow.compat.v1 as tf

from sok1x.core.embedding_variable import EmbeddingVariable
from sok1x.graph_ops.bridge.tensorflow_versions import variable_scope

# What a getter takes in this order, behind the name.
_POSITIONAL = ("shape", "dtype", "initializer", "regularizer", "reuse", "trainable")
Make = Callable[[str, Any], EmbeddingVariable]


def get(name: str, make: Make, reuse: Any = None) -> EmbeddingVariable:
    """A table of the current variable scope: made, or the one that was made under this name before.

    The scope says by `reuse` which of the two is meant, and templates (`tf.make_template`) as well. A plain
    `tf.get_variable` of this name finds the table too. The scope's custom_getter is asked, as for any variable.

    Args:
        name: below the variable scope's name.
        make: makes the table, given its whole name and the scope's constraint, or None.
        reuse: as for `tf.get_variable`; None: as the scope says.

    Returns:
        The table.

    Raises:
        ValueError: as `tf.get_variable`: there is one and the scope does not reuse, or there is none and it must; or
            what is there is no table; or the scope has a regularizer, or a custom_getter that wants another variable.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> from sok1x.core import scoped_tables
        >>> sok.init()
        >>> with tf.Graph().as_default():
        ...     def make(name, constraint):
        ...         return sok.Variable([[1.0, 2.0], [3.0, 4.0]], name=name, constraint=constraint)
        ...     with tf.variable_scope("ads"):
        ...         table = scoped_tables.get("items", make)
        ...     with tf.variable_scope("ads", reuse=True):
        ...         scoped_tables.get("items", make) is table, table.m_var_name
        (True, 'ads/items')
    """
    scope = tf.get_variable_scope()
    asked = scope.custom_getter

    def getter(getter: Any, name: str, **given: Any) -> Any:
        def ours(name: str, *values: Any, **options: Any) -> EmbeddingVariable:
            options.update(zip(_POSITIONAL, values))
            return _got(name, make, options, given)

        return ours(name, **given) if asked is None else asked(getter=ours, name=name, **given)

    found = scope.get_variable(variable_scope._get_default_variable_store(), name, reuse=reuse, custom_getter=getter)
    if not isinstance(found, EmbeddingVariable):
        raise ValueError("table '{}': got {!r} of type {} from the variable scope's custom_getter, expected the table: "
                         "have it return what its getter gives".format(name, found, type(found).__name__))
    return found


def _got(name: str, make: Make, options: Dict[str, Any], given: Dict[str, Any]) -> EmbeddingVariable:
    """options: what is asked for; given: what the variable scope's custom_getter, if it has one, was told."""
    variables, reuse = variable_scope._get_default_variable_store()._vars, options.get("reuse")
    found = variables.get(name)
    if found is None:
        if reuse is True:
            raise ValueError("table '{}': there is none, and the variable scope says reuse=True: make it first, "
                             "without reuse, or set reuse=tf.AUTO_REUSE in the scope".format(name))
        _check(name, options, given)
        with tf.name_scope(None):  # the name is whole
            found = variables[name] = make(name, options.get("constraint"))
        return found
    if not reuse:
        raise ValueError("table '{}': there is one already, and the variable scope does not say that it is to be used "
                         "again: set reuse=True or reuse=tf.AUTO_REUSE in the scope, or take another name".format(name))
    if not isinstance(found, EmbeddingVariable):
        raise ValueError("table '{}': got a variable of this name that is no table of sok1x, of type {}: take another "
                         "name".format(name, type(found).__name__))
    return found


def _check(name: str, options: Dict[str, Any], given: Dict[str, Any]) -> None:
    """Raises where the scope wants of a variable what a table does not do."""
    regularizer = options.get("regularizer")
    if regularizer is not None:
        raise ValueError(
            "table '{}': got the variable scope's regularizer {!r}, expected none: a table's rows lie on all ranks, "
            "and come one by one. Open the scope after the lookup, or set_regularizer(None) on a variable scope around "
            "it; layers take a kernel_regularizer of their own".format(name, regularizer))
    for what, allowed in (("initializer", ()), ("trainable", (None, True))):
        value = options.get(what, given.get(what))
        if value is not given.get(what) and not any(value is each for each in allowed):
            raise ValueError("table '{}': {}: got {!r} from the variable scope's custom_getter, expected it unchanged: "
                             "give it to what makes the table".format(name, what, value))

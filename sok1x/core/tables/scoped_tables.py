"""Tables under `tf.variable_scope`: named, found again and shared as what `tf.get_variable` makes."""
import threading
import weakref
from typing import Any, Callable, Dict, Optional

import tensorflow.compat.v1 as tf

from sok1x.core.eagerly import eager
from sok1x.core.embedding_variable import EmbeddingVariable
from sok1x.core.graph_keys import GraphKeys
from sok1x.graph_ops.bridge.tensorflow_versions import variable_scope

# What a getter takes in this order, behind the name.
_POSITIONAL = ("shape", "dtype", "initializer", "regularizer", "reuse", "trainable")
# What a custom_getter may not change, and what it may say of it all the same, which changes nothing.
_UNCHANGED = {"shape": (), "initializer": (), "trainable": (None, True), "validate_shape": (True,),
              "collections": (None, [tf.GraphKeys.GLOBAL_VARIABLES]),
              "synchronization": (None, tf.VariableSynchronization.AUTO),
              "aggregation": (None, tf.VariableAggregation.NONE)}
Make = Callable[[str, Any], EmbeddingVariable]
_one_at_a_time = threading.RLock()  # an initializer may ask for a table of its own


def get(name: str, make: Make, reuse: Any = None, dtype: Any = None) -> EmbeddingVariable:
    """A table of the current variable scope: made, or the one that was made under this name before.

    The scope says by `reuse` which of the two is meant, and templates (`tf.make_template`) as well. A plain
    `tf.get_variable` of this name finds the table too. The scope's custom_getter is asked, as for any variable. Its
    partitioner and use_resource change nothing: ranks are the parts, and a table is a resource.

    Args:
        name: below the variable scope's name.
        make: makes the table, given its whole name and the scope's constraint, or None.
        reuse: as for `tf.get_variable`; None: as the scope says. In eager execution scopes do not say it: this alone
            does, or an `EagerVariableStore`.
        dtype: likewise; it must be float32.

    Returns:
        The table.

    Raises:
        ValueError: as `tf.get_variable`: there is one and the scope does not reuse, or there is none and it must; or
            what is there is no table; or the scope has a regularizer, a caching_device, another dtype, or a
            custom_getter that wants another variable.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> from sok1x.core.tables import scoped_tables
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
    scope, store = tf.get_variable_scope(), variable_scope._get_default_variable_store()
    asked = scope.custom_getter

    def getter(getter: Any, name: str, **given: Any) -> Any:
        if tf.executing_eagerly():  # where TensorFlow forgets what was said, and makes another
            given["reuse"] = tf.AUTO_REUSE if store._store_eager_variables else reuse

        def ours(name: str, *values: Any, **options: Any) -> EmbeddingVariable:
            options.update(zip(_POSITIONAL, values))
            # Of two threads that ask for one name at once, eagerly, the second finds what the first makes.
            with _one_at_a_time:
                return _got(name, make, options, given)

        return ours(name, **given) if asked is None else asked(getter=ours, name=name, **given)

    found = scope.get_variable(store, name, dtype=dtype, reuse=reuse, custom_getter=getter)
    if not isinstance(found, EmbeddingVariable):
        raise ValueError("table '{}': got {!r} of type {} from the variable scope's custom_getter, expected the table: "
                         "have it return what its getter gives".format(name, found, type(found).__name__))
    return found


def _got(name: str, make: Make, options: Dict[str, Any], given: Dict[str, Any]) -> EmbeddingVariable:
    """options: what is asked for; given: what the variable scope's custom_getter, if it has one, was told."""
    store, reuse = variable_scope._get_default_variable_store(), options.get("reuse")
    variables = store._vars
    # That which keeps eager variables, as of a Keras layer, is not the thread's: what is not in it is another's.
    of_thread = not store._store_eager_variables
    found = variables.get(name)
    if found is None and reuse and of_thread and eager.is_on():
        found = _of_another_thread(name)
    _check_dtype(name, options.get("dtype", given.get("dtype")))
    if found is None:
        if reuse is True:
            raise ValueError("table '{}': there is none, and the variable scope says reuse=True: make it first, "
                             "without reuse, or set reuse=tf.AUTO_REUSE in the scope".format(name))
        _check(name, options, given)
        with tf.name_scope(None):  # the name is whole
            found = make(name, options.get("constraint"))
        if of_thread:
            found.made_in = weakref.ref(threading.current_thread())
        variables[name] = found
        return found
    if not reuse and tf.executing_eagerly():
        raise ValueError("table '{}': there is one already, and variable scopes do not say in eager execution whether "
                         "it is to be used again: keep what has been made, give reuse=tf.AUTO_REUSE to what makes it "
                         "(get_embedding_variable), or take another name".format(name))
    if not reuse:
        raise ValueError("table '{}': there is one already, and the variable scope does not say that it is to be used "
                         "again: set reuse=True or reuse=tf.AUTO_REUSE in the scope, or take another name".format(name))
    if not isinstance(found, EmbeddingVariable):
        raise ValueError("table '{}': got a variable of this name that is no table of sok1x, of type {}: take another "
                         "name".format(name, type(found).__name__))
    return found


def _of_another_thread(name: str) -> Optional[EmbeddingVariable]:
    """An eager table that another thread has made here: TensorFlow's variable stores are one of each thread."""
    tables = eager.collected(eager.graph(), GraphKeys.GLOBAL_EMBEDDING_VARIABLES)
    return next((table for table in tables if table.table.name == name and table.made_in is not None
                 and table.made_in() is not threading.current_thread()), None)


def _check(name: str, options: Dict[str, Any], given: Dict[str, Any]) -> None:
    """Raises where the scope wants of a variable what a table does not do."""
    regularizer = options.get("regularizer")
    if regularizer is not None:
        raise ValueError(
            "table '{}': got the variable scope's regularizer {!r}, expected none: a table's rows lie on all ranks, "
            "and come one by one. Open the scope after the lookup, or set_regularizer(None) on a variable scope around "
            "it; layers take a kernel_regularizer of their own".format(name, regularizer))
    device = options.get("caching_device")
    if device is not None:
        raise ValueError(
            "table '{}': got the variable scope's caching_device {!r}, expected none: a table's rows are read where "
            "they lie, and no other device has a copy. Call set_caching_device(None) on a variable scope around "
            "it".format(name, device))
    for what, allowed in _UNCHANGED.items():
        value = options.get(what, given.get(what))
        if value is not given.get(what) and not any(value is each or value == each for each in allowed):
            raise ValueError("table '{}': {}: got {!r} from the variable scope's custom_getter, expected it unchanged: "
                             "give it to what makes the table".format(name, what, value))


def _check_dtype(name: str, dtype: Any) -> None:
    if dtype is not None and tf.as_dtype(dtype).base_dtype != tf.float32:
        raise ValueError(
            "table '{}': got the variable scope's dtype {}, or its custom_getter's, expected float32, which rows are: "
            "say so in what makes the table (value_dtype=tf.float32), call set_dtype(tf.float32) on a variable scope "
            "around it, and cast what is looked up".format(name, tf.as_dtype(dtype).name))

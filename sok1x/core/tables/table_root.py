"""The root of the graph, where tables are made whatever scopes are open, and the names that they get there."""
import contextlib
from typing import Iterator

import tensorflow.compat.v1 as tf

from sok1x.core.eagerly import eager, strategies
from sok1x.core.thread_scope import ThreadScope
from sok1x.graph_ops.bridge.tensorflow_versions import deprecation, tf_ops
from sok1x.graph_ops.stores import beside
from sok1x.graph_ops.stores.table import Table

former = ThreadScope()  # what a table that is made inside was called by an earlier sok1x; None: nothing else


@contextlib.contextmanager
def room() -> Iterator[None]:
    """Where a table's variables are made.

    Raises:
        ValueError: eager execution of TensorFlow 1.15 is on, or a strategy that tables do not take.

    Example:
        >>> import tensorflow as tf
        >>> from sok1x.core.tables import table_root
        >>> with tf.Graph().as_default(), tf.name_scope("anywhere"), table_root.room():
        ...     tf.constant(7, name="seven").name
        'seven:0'
    """
    if tf.executing_eagerly() and not eager.is_on():
        raise ValueError(
            "sok1x makes tables in a tf.Graph: got eager execution of TensorFlow 1.15; remove "
            "tf.enable_eager_execution(), or build the model under `with tf.Graph().as_default():`")
    strategies.current()  # or words about it
    # init_scope leaves functions, control flow and control dependencies; the empty scope leaves name scopes.
    # TensorFlow warns of an argument that it passes itself to every resource variable.
    with tf.init_scope(), tf_ops.name_scope(None), deprecation.silence():
        yield


def unique_name(name: str, taken: bool = False) -> str:
    """A name that no table has yet.

    Args:
        name: the name itself, or what it begins with.
        taken: whether no other gets it from now on, though nothing of that name is made.

    Returns:
        A str.

    Raises:
        ValueError: it has a backslash, which TensorFlow 2.15 takes in names of variables, and not in those of ops.

    Example:
        >>> import tensorflow as tf
        >>> from sok1x.core.tables import table_root
        >>> with tf.Graph().as_default():
        ...     [table_root.unique_name("items", taken=True) for _ in range(2)]
        ['items', 'items_1']
    """
    if tf.executing_eagerly():
        unique = eager.unique_name(name)
    else:
        unique = str(tf.get_default_graph().unique_name(name, mark_as_used=taken))
    if "\\" in unique:  # which graph_ops/stores/beside.py counts on not being there
        raise ValueError("table '{}': name: got a backslash, expected what TensorFlow's ops can be called: letters, "
                         "digits, '_', '.', '-' and '/', the first a letter, a digit or '.' (its name scopes are part "
                         "of it)".format(unique))
    return unique


def known_as(table: Table) -> Table:
    """A table's description, by which what an earlier sok1x has saved is found under the former name.

    Args:
        table: the description.

    Returns:
        The same, or one that has a name in `former` besides.

    Example:
        >>> from sok1x.core.tables import table_root
        >>> from sok1x.graph_ops.stores.table import HASHED, Initializer, Table
        >>> with table_root.former.entered("ad_shared_embedding/embedding_weights"):
        ...     table_root.known_as(Table("ads", 8, 4, HASHED, "int64", Initializer("constant", 1.0, 0.0))).saved_name
        'ad_shared_embedding/embedding_weights'
    """
    return table if former.value in (None, table.name) else table._replace(former_name=former.value)


def refuse_taken(table: Table) -> None:
    """Raises where what lies beside a table that grows cannot have the names by which growth finds it.

    TensorFlow would give it others: something that was made before has these. Eager variables have names of ours.

    Args:
        table: the description, inside `room`.

    Raises:
        ValueError: it is so.

    Example:
        >>> import tensorflow as tf
        >>> from sok1x.core.tables import table_root
        >>> from sok1x.graph_ops.stores.table import HASHED, Growth, Initializer, Table
        >>> with tf.Graph().as_default():
        ...     table_root.refuse_taken(Table("ads", 8, 4, HASHED, "int64", Initializer("zeros"), growth=Growth()))
    """
    if not table.grows or eager.is_on():
        return
    graph = tf.get_default_graph()
    names = [beside.name_of(table, what) for what in beside.places(table)]
    taken = [name for name in names if graph.unique_name(name, mark_as_used=False) != name]
    if taken:
        raise ValueError((
            "table '{0}': name: got one by which a variable of the table would be called '{1}', and something else in "
            "the graph is called so (upper and lower case are alike). The table grows, and its variables are found by "
            "these names: give the table another name, or the other").format(table.name, taken[0]))

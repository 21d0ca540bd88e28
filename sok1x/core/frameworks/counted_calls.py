"""What a tape's dense gradient is told of rows that leave while it is made, by calls of functions.

A function's call in which another tape makes a gradient of a table, as that of `tf.recompute_grad`, gives a dense one.
The row numbers are gone with the call, and with them what keeps the rows (dense_gradients.py): so the whole gradient
is as old as the first of these.
"""
import contextlib
import weakref
from typing import Any, Iterator, List

import tensorflow.compat.v1 as tf

from sok1x.core.frameworks import dense_gradients
from sok1x.core.thread_scope import ThreadScope
from sok1x.graph_ops.bridge.tensorflow_versions import is_eager_outside, nest

_TABLES = "_sok1x_tables_of_tapes"  # an attribute of a function's body: {id: a weak reference}, see `mark_body`
_counting = ThreadScope()  # its value: [(variable, how many rows have left)], see `counting`


@contextlib.contextmanager
def counting() -> Iterator[List[Any]]:
    """Inside, a tape makes a gradient, and it is counted how many rows have left at the end of calls that it makes of
    functions in which other tapes have made theirs, as those of `tf.recompute_grad`.

    What these give is dense, and their rows stay no longer: a later call's lookup may have them leave.

    Yields:
        What is counted: a list, for `note`.

    Example:
        >>> from sok1x.core.frameworks import counted_calls
        >>> with counted_calls.counting() as counted:
        ...     pass
        >>> counted
        []
    """
    outer, counted = _counting.value, []  # type: Any, List[Any]
    with _counting.entered(counted):
        yield counted
    if outer is not None:
        outer += counted


def mark_body(variables: List[Any]) -> None:
    """Notes with the function's body that is being built that a tape in it has made gradients with row numbers.

    Args:
        variables: of which they are, of any kind.

    Example:
        >>> from sok1x.core.frameworks import counted_calls
        >>> counted_calls.mark_body([])  # nothing
    """
    tables = {id(variable): weakref.ref(variable) for variable in variables if dense_gradients.rows_leave(variable)}
    graph = tf.get_default_graph() if tables and not tf.executing_eagerly() and is_eager_outside() else None
    while graph is not None:
        setattr(graph, _TABLES, {**getattr(graph, _TABLES, {}), **tables})
        graph = getattr(graph, "outer_graph", None)


def after_call(body: Any, made: Any) -> None:
    """Counts for `counting` after a call of a function.

    Args:
        body: the function's.
        made: what the call has given.

    Example:
        >>> import tensorflow as tf
        >>> from sok1x.core.frameworks import counted_calls
        >>> counted_calls.after_call(tf.Graph(), None)  # nothing
    """
    tables = [table() for table in getattr(body, _TABLES, {}).values()]
    variables = [variable for variable in tables if variable is not None]
    if not variables:
        return
    mark_body(variables)
    if _counting.value is not None:
        waits = [] if tf.executing_eagerly() else [
            each for each in nest.flatten(made, expand_composites=True) if isinstance(each, tf.Tensor)]
        with tf.control_dependencies(waits):
            _counting.value.extend((variable, dense_gradients.rows_left(variable)) for variable in variables)

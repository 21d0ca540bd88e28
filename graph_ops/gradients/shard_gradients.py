"""The gradients of tables' rows that a graph has, by name: who handles one must know that it is a rank's own.

An eager tensor has no graph and no name: there the tensor itself is marked (marks.py).
"""
import weakref

import tensorflow.compat.v1 as tf

from sok1x.graph_ops.bridge.tensorflow_versions import is_eager_outside
from sok1x.graph_ops.gradients import marks

_made = weakref.WeakKeyDictionary()  # graph -> {table's name: [(name of the values, name of the row numbers or None)]}
_TABLE, _DISTINCT, _EXCHANGED = "_sok1x_gradient_of", "_sok1x_distinct_rows_of", "_sok1x_exchanged"
_SHAPE, _LEFT = "_sok1x_shape_of", "_sok1x_rows_left"
_MARKS = _DISTINCT, _EXCHANGED, _SHAPE  # and _TABLE, which tensors of a graph do not have


def _is_eager(tensor):
    return not hasattr(tensor, "graph")


def values_of(gradient):
    """A gradient's values: of a tensor itself, of tf.IndexedSlices those of the rows that it has."""
    return gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient


def with_values(gradient, values):
    """A gradient, a tensor or tf.IndexedSlices, with other values in place of its own."""
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
    return values


def add(table_name, values, indices=None, distinct=False):
    """Notes the gradient of a table's rows: values [u, D] and row numbers [u], or values [V, D] of all rows.

    distinct: whether the row numbers are for certain.
    """
    if _is_eager(values):
        marks.note(values, _TABLE, table_name)
        if distinct:
            marks.note(indices, _DISTINCT, table_name)
        return
    of_graph = _made.setdefault(values.graph, {})
    of_graph.setdefault(table_name, []).append((values.name, None if indices is None else indices.name))


def mark_shape(shape, table_name):
    """Notes that a tensor is the `dense_shape` of a table's gradient: it stays what the values' sums and products do
    not, when a tape adds gradients up or they are divided by a loss scale."""
    marks.note(shape, _SHAPE, table_name)


def table_of_shape(tensor):
    """The table of whose gradient a tensor is the `dense_shape`, as `mark_shape` was told; else None."""
    return marks.noted(tensor, _SHAPE)


def table_of_gradient(gradient):
    """The table of which something is the gradient, as a tape gives it, in eager execution or a function's body; else
    None. Of IndexedSlices `mark_shape` was told; of a dense one, and of values, `add`."""
    if isinstance(gradient, tf.IndexedSlices):
        return table_of_shape(gradient.dense_shape)
    while isinstance(gradient, tf.Tensor):
        table = places(gradient.graph).get(gradient.name) if hasattr(gradient, "graph") else eager_table_of(gradient)
        if table is not None:
            return table
        gradient = captured(gradient)
    return None


def captured(tensor):
    """What is a tensor of a function's body, as of a branch, outside of it; None if it is made there."""
    graph = getattr(tensor, "graph", None)
    return next((outside for outside, inside in getattr(graph, "captures", ()) if inside is tensor), None)


def distinct_of(indices):
    """The table of whose gradient an eager tensor is the row numbers, distinct; else None."""
    return marks.noted(indices, _DISTINCT)


def eager_table_of(values):
    """The table of whose gradient a tensor is the values, by its mark; else None."""
    return marks.noted(values, _TABLE)


def mark_exchanged(tensor):
    """Notes that a tensor has what ranks have exchanged, where its graph does not say so."""
    marks.note(tensor, _EXCHANGED, True)


def is_marked_exchanged(tensor):
    """Whether `mark_exchanged` was told so."""
    return marks.noted(tensor, _EXCHANGED, False)


def note_left(gradient, left):
    """Notes with a dense gradient what says how many rows had left its table when it was made."""
    marks.note(gradient, _LEFT, left)


def left_of(gradient):
    """What `note_left` was told of a gradient, or of what it is outside of a function's body; else None."""
    while gradient is not None:
        left = marks.noted(gradient, _LEFT)
        if left is not None:
            return left
        gradient = captured(gradient)
    return None


def keep_marks(before, after):
    """Notes that a tensor is what another was, but for a factor that all ranks have: it is as exchanged as that."""
    if is_marked_exchanged(before):
        mark_exchanged(after)
    table = table_of_gradient(before) if is_eager_outside() else None
    if table is not None:
        add(table, after)
        note_left(after, left_of(before))


def has_marks(tensor):
    """Whether anything is noted of a tensor that goes with it where it is handed on."""
    return any(marks.noted(tensor, mark) is not None for mark in _MARKS) or _table_of_values(tensor) is not None


def copy_marks(before, after):
    """Notes of a tensor all that is noted of another, whose value it has."""
    for mark in _MARKS:
        value = marks.noted(before, mark)
        if value is not None:
            marks.note(after, mark, value)
    table = _table_of_values(before)
    if table is not None:
        add(table, after)


def _table_of_values(tensor):
    """The table of whose gradient a tensor is the values, wherever it is; else None."""
    if _is_eager(tensor):
        return eager_table_of(tensor)
    return next((table for table, made in _made.get(tensor.graph, {}).items()
                 if any(values == tensor.name for values, _ in made)), None)


def of_table(graph, table_name):
    """[(values, row numbers or None)]: tensors."""
    return [(graph.get_tensor_by_name(values), None if indices is None else graph.get_tensor_by_name(indices))
            for values, indices in _made.get(graph, {}).get(table_name, [])]


def row_numbers_of(graph, table_name):
    """Names of the row numbers of a table's gradients: a set."""
    return {indices for _, indices in _made.get(graph, {}).get(table_name, ()) if indices is not None}


def names(graph):
    """Names of the values of all tables' gradients: a set."""
    return {values for made in _made.get(graph, {}).values() for values, _ in made}


def places(graph):
    """{name of the values or row numbers of a table's gradient: the table's name}."""
    return {name: table for table, made in _made.get(graph, {}).items() for pair in made for name in pair if name}

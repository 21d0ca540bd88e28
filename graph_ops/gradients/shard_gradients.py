"""The gradients of tables' rows that a graph has, by name: who handles one must know that it is a rank's own."""
import weakref

_made = weakref.WeakKeyDictionary()  # graph -> {table's name: [(name of the values, name of the row numbers or None)]}


def add(table_name, values, indices=None):
    """Notes the gradient of a table's rows: values [u, D] and row numbers [u], or values [V, D] of all rows."""
    of_graph = _made.setdefault(values.graph, {})
    of_graph.setdefault(table_name, []).append((values.name, None if indices is None else indices.name))


def of_table(graph, table_name):
    """[(values, row numbers or None)]: tensors."""
    return [(graph.get_tensor_by_name(values), None if indices is None else graph.get_tensor_by_name(indices))
            for values, indices in _made.get(graph, {}).get(table_name, [])]


def names(graph):
    """Names of the values of all tables' gradients: a set."""
    return {values for made in _made.get(graph, {}).values() for values, _ in made}

"""Tables that users give: a table's variable, or the layer that has it."""
from typing import Any, List

from sok1x.core.embedding_variable import EmbeddingVariable

EXPECTED = "a sok1x.Variable, a sok1x.DynamicVariable, a layer of sok1x or its embedding_variable"


def table(what: str, value: Any, expected: str = EXPECTED) -> EmbeddingVariable:
    """An argument that must be a table of ours.

    Args:
        what: whose argument it is, and its name, for messages.
        value: what was given.
        expected: what it must be, for messages.

    Returns:
        The table's variable; of a layer its `embedding_variable`.

    Raises:
        TypeError: it is none.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> from sok1x.core.options import given_tables
        >>> with tf.Graph().as_default():
        ...     layer = sok.All2AllDenseEmbedding(
        ...         max_vocabulary_size_per_gpu=8, embedding_vec_size=4, slot_num=1, nnz_per_slot=1)
        ...     given_tables.table("sok1x.export: variable", layer) is layer.embedding_variable
        True
    """
    try:
        found = value.embedding_variable
    except (AttributeError, AssertionError):  # the latter of a layer that has not made its table
        found = value
    if not isinstance(found, EmbeddingVariable):
        raise TypeError("{}: got {!r} of type {}, expected {}".format(what, value, type(value).__name__, expected))
    return found


def tables(what: str, values: Any, expected: str = EXPECTED + ", or a list of them") -> List[EmbeddingVariable]:
    """An argument that must be a table of ours, or several of one graph.

    Args:
        what: as for `table`.
        values: what was given: one, or a list or tuple of them.
        expected: as for `table`.

    Returns:
        The tables' variables, in order.

    Raises:
        TypeError: one is no table of ours.
        ValueError: they are of several graphs.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> from sok1x.core.options import given_tables
        >>> with tf.Graph().as_default():
        ...     table = sok.EmbeddingVariable(rows=8, dim=4)
        >>> given_tables.tables("sok1x.dump: sok_vars", table)[0] is table
        True
    """
    found = [table(what, value, expected) for value in (values if isinstance(values, (list, tuple)) else [values])]
    for one in found:
        if one.graph is not found[0].graph:
            raise ValueError("{}: got '{}' and '{}' of two graphs, expected tables of one".format(
                what, found[0].table.name, one.table.name))
    return found

"""The static shape of a table that grows: V is not known when the graph is built.

An optimizer that asks for it is refused with words (`GrowingRows`). Most take care of shapes that are not known.
`shapes_known` is for those that do not: inside, a table that grows passes itself off as one of a single row.
"""
from typing import Any, ContextManager, NoReturn

import tensorflow.compat.v1 as tf

from sok1x.core.thread_scope import ThreadScope

_known = ThreadScope()


class GrowingRows(tf.Dimension):
    """V of a table that grows, in its static shape: unknown, and with words for who must know it.

    Args:
        table: its name.

    Example:
        >>> from sok1x.core.tables.growing_shape import GrowingRows
        >>> GrowingRows("EmbeddingVariable").value is None
        True
    """

    def __init__(self, table: str) -> None:
        super().__init__(None)
        self._table = table

    def refuse(self) -> NoReturn:
        """Raises the ValueError that tells whoever must know V what to do."""
        raise ValueError((
            "table '{}' grows, so the number of its rows is not known when the graph is built, and got asked for. If "
            "it was an optimizer that asked, wrap it: sok1x.DistributedOptimizer(optimizer), or for tables alone "
            "sok1x.OptimizerWrapper(optimizer)").format(self._table))

    __int__ = __long__ = __index__ = refuse


def shapes_known() -> ContextManager[None]:
    """Inside, in this thread, tables that grow have the static shape [1, D]: to make slots, and for nothing else.

    Example:
        >>> from sok1x.core.tables import growing_shape
        >>> with growing_shape.shapes_known():
        ...     growing_shape.are_shapes_known()
        True
    """
    return _known.entered()


def are_shapes_known() -> bool:
    """Whether this is inside `shapes_known`.

    Returns:
        A bool.

    Example:
        >>> from sok1x.core.tables import growing_shape
        >>> growing_shape.are_shapes_known()
        False
    """
    return bool(_known.value)


def grows(variable: Any) -> bool:
    """Whether a variable is the rows of a table that grows.

    Args:
        variable: any variable.

    Returns:
        A bool.

    Example:
        >>> from sok1x.core.tables import growing_shape
        >>> growing_shape.grows(object())
        False
    """
    table = getattr(variable, "table", None)
    return table is not None and bool(table.grows)


def refuse_if_growing(variable: Any) -> None:
    """Refuses what must know the rows of a variable, if that is a table that grows.

    Args:
        variable: any variable.

    Raises:
        ValueError: it is one; the message names it, and what to do.

    Example:
        >>> from sok1x.core.tables import growing_shape
        >>> growing_shape.refuse_if_growing(object())
    """
    if grows(variable):
        GrowingRows(variable.table.name).refuse()

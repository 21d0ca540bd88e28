"""Tables whose rows are dealt out over all ranks, under SOK 2.x's name."""
from typing import Any

from sok1x.core.tables.static_variable import StaticVariable
from sok1x.graph_ops.stores.placement import BY_KEY

__all__ = ["DistributedVariable"]


class DistributedVariable(StaticVariable):
    """`sok.Variable` of mode 'distributed': rank r has rows r, r + N, r + 2 N, … in this order.

    Args:
        initial_value: as for `sok.Variable`.
        **options: likewise: trainable, name, dtype, constraint, shape, initializer, collections.

    Attributes:
        m_var_name: its name in the graph, without ':0'.

    Raises:
        RuntimeError: the ranks have not joined yet.
        TypeError: as for `sok.Variable`.
        ValueError: likewise.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> sok.init()
        >>> with tf.Graph().as_default():
        ...     sok.DistributedVariable([[1.0, 2.0], [3.0, 4.0]], name="items").mode
        'distributed'
    """

    def __init__(self, initial_value: Any = None, **options: Any) -> None:
        super().__init__(BY_KEY, initial_value, **options)

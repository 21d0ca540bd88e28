"""Tables of which one rank has all rows, under SOK 2.x's name."""
from typing import Any

from sok1x import launch
from sok1x.core.options.given_numbers import integer
from sok1x.core.tables.static_variable import StaticVariable
from sok1x.graph_ops.stores.placement import Placement

__all__ = ["LocalizedVariable"]


class LocalizedVariable(StaticVariable):
    """`sok.Variable` of mode 'localized:R': rank R has all rows, all others have none.

    Args:
        initial_value: as for `sok.Variable`.
        target_gpu: R.
        **options: as for `sok.Variable`: trainable, name, dtype, constraint, shape, initializer, collections.

    Attributes:
        m_var_name: its name in the graph, without ':0'.

    Raises:
        RuntimeError: the ranks have not joined yet.
        TypeError: as for `sok.Variable`.
        ValueError: likewise, or target_gpu is no rank.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> sok.init()
        >>> with tf.Graph().as_default():
        ...     sok.LocalizedVariable([[1.0, 2.0], [3.0, 4.0]], target_gpu=0, name="cities").mode
        'localized:0'
    """

    def __init__(self, initial_value: Any = None, target_gpu: int = 0, **options: Any) -> None:
        what = "sok1x.LocalizedVariable '{}': target_gpu".format(options.get("name") or "Variable")
        world = launch.current()
        most = None if world is None else world.size - 1
        super().__init__(Placement(integer(what, target_gpu, 0, most)), initial_value, **options)

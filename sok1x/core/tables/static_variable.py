"""Tables with a fixed number of rows and no index: what `sok.Variable` makes."""
import contextlib
from typing import Any, Optional

import tensorflow.compat.v1 as tf

from sok1x import launch
from sok1x.core.options import initial_values
from sok1x.core.tables import table_root
from sok1x.core.tables.placed_variable import PlacedVariable, check_rank
from sok1x.graph_ops.bridge.tensorflow_versions import tf_ops
from sok1x.graph_ops.stores.placement import Placement
from sok1x.graph_ops.stores.table import DIRECT, MOST_ROWS, Initializer, Table

_ON_GPUS = ("float32", "float64", "int64")  # dtypes of which TensorFlow 1.15 has variables there


class StaticVariable(PlacedVariable):
    """This rank's rows [n, D] of a table that is spread over the ranks; see `sok.Variable`.

    Args:
        placement: which rank has which rows.
        initial_value: as for `sok.Variable`, and so are the others.
        trainable: see there.
        name: see there.
        dtype: see there.
        constraint: see there.
        shape: see there.
        initializer: see there.
        collections: see there.

    Attributes:
        m_var_name: its name in the graph, without ':0'.
        named_by_user: True.

    Raises:
        RuntimeError: the ranks have not joined yet.
        TypeError: as for `sok.Variable`.
        ValueError: likewise.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> from sok1x.core.tables.static_variable import StaticVariable
        >>> sok.init()
        >>> with tf.Graph().as_default():
        ...     isinstance(sok.Variable([[1.0, 2.0], [3.0, 4.0]]), StaticVariable)
        True
    """

    def __init__(self, placement: Placement, initial_value: Any = None, trainable: bool = True,
                 name: Optional[str] = None, dtype: Any = None, constraint: Any = None, shape: Any = None,
                 initializer: Any = None, collections: Any = None) -> None:
        label = "sok1x.Variable '{}'".format(name or "Variable")
        world = _world(label)
        check_rank(label, placement, world.size)
        with tf.init_scope():
            unique = table_root.unique_name(name or "Variable")
            whole = initial_values.whole(label, initial_value, shape, initializer, dtype)
            mine = placement.rows_of(whole.rows, world.rank, world.size)
            if mine > MOST_ROWS:
                raise ValueError("{}: got {} rows, {} of them on rank {}, expected at most {} on a rank".format(
                    label, whole.rows, mine, world.rank, MOST_ROWS))
            place = world.rank - placement.first if placement.has_keys(world.rank) else None
            with tf_ops.name_scope(unique + "/Initializer/"):
                spec, fill = whole.part(place, placement.parts(world.size), mine)
        self._whole_rows = whole.rows
        with table_root.room(), contextlib.ExitStack() as stack:
            if whole.dtype not in _ON_GPUS:
                stack.enter_context(tf.device("/cpu:0"))
            self._make(Table(unique, mine, whole.dim, DIRECT, "int64", Initializer(**spec), placement, whole.rows,
                             whole.dtype), fill, trainable, constraint=constraint, collections=collections)

    @property
    def global_shape(self) -> tf.TensorShape:
        """The shape of the whole table; `shape` is that of this rank's rows.

        Returns:
            [rows, D].

        Example:
            >>> import tensorflow as tf
            >>> import sok1x as sok
            >>> sok.init()
            >>> with tf.Graph().as_default():
            ...     sok.Variable([[1.0, 2.0], [3.0, 4.0]]).global_shape.as_list()
            [2, 2]
        """
        return tf.TensorShape([self._whole_rows, self.table.dim])


def _world(label: str) -> "launch.World":
    world = launch.current()
    if world is None:
        raise RuntimeError("{}: the ranks have not joined yet, so nobody knows which rows are this rank's; call "
                           "sok1x.init() before, or run the op made by sok1x.Init".format(label))
    return world

"""SOK 2.x's variables: embedding tables that are spread over the ranks, and used as `tf.Variable`s."""
from typing import Any, Optional

from sok1x import launch
from sok1x.core.tables.placed_variable import check_rank, placement_of
from sok1x.core.tables.static_variable import StaticVariable
from sok1x.distributed_variable import DistributedVariable
from sok1x.localized_variable import LocalizedVariable

__all__ = ["Variable"]


def Variable(initial_value: Any = None, trainable: bool = True, validate_shape: bool = True,
             caching_device: Any = None, name: Optional[str] = None, variable_def: Any = None, dtype: Any = None,
             import_scope: Any = None, constraint: Any = None, synchronization: Any = None, aggregation: Any = None,
             shape: Any = None, initializer: Any = None, mode: Optional[str] = None,
             collections: Any = None) -> StaticVariable:
    """A table [rows, D] that is spread over the ranks, for `sok.lookup_sparse`.

    It is a resource variable of this rank's rows, [n, D], in TensorFlow's collections: initializers, `eval`,
    `tf.gradients`, savers, and tf.train and Keras optimizers take it. `sok.init` comes before.

    Args:
        initial_value: the whole table, of all ranks, equal on all of them; each keeps its rows. An array or nested
            list [rows, D], or [D] for one row: integers stay integers. Nothing but this rank's rows is kept of it, and
            none of it is in the graph. Or a tensor or variable of these shapes: each rank computes all of it when the
            table is initialized, and takes its rows of what it has got, so that something random is another on each
            rank unless it has a seed. Or a callable that gives one of these.
        trainable: whether optimizers train it by default.
        validate_shape: True.
        caching_device: None: rows are read where they are.
        name: its name, in the current name scope; made unique.
        variable_def: None.
        dtype: of the rows: float32, float64, int32 or int64; by default that of the value, or float32.
            `sok.lookup_sparse` and optimizers take float32; what is of another can be read, assigned and saved.
        import_scope: None.
        constraint: as for `tf.Variable`, on this rank's rows.
        synchronization: nothing depends on it.
        aggregation: likewise.
        shape: [rows, D] or [D] of the whole table, in place of an initial value.
        initializer: how rows begin, in place of an initial value: as a layer's `embedding_initializer`. None (uniform
            in [-0.05, 0.05)), or a name: a row is a function of seed, table and its number, on any number of ranks.
            A Keras or TensorFlow initializer object is called for this rank's rows, [n, D].
        mode: None or 'distributed': rank r has rows r, r + N, r + 2 N, … in this order; with fewer rows than ranks
            some have none. 'localized:R': rank R has all rows, the others have none.
        collections: as for `tf.Variable`.

    Returns:
        A `sok.DistributedVariable` or a `sok.LocalizedVariable`. `shape` is that of this rank's rows, `global_shape`
        that of the whole table; `mode`, `target_gpu` (R, or -1) and `num_gpus` (N) say where its rows are.

    Raises:
        RuntimeError: the ranks have not joined yet.
        TypeError: a dtype that rows cannot have.
        ValueError: neither a value nor a shape, both a value and an initializer, a shape that fits no table, an
            unknown mode, R that is not a rank, an argument that must be None, or eager execution of TensorFlow 1.15.

    Example:
        >>> import numpy as np
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> sok.init()
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     items = sok.Variable(np.arange(8).reshape(4, 2), dtype=tf.float32, name="items")
        ...     users = sok.Variable(shape=[1000, 16], initializer="normal", name="users")
        ...     session.run(tf.global_variables_initializer())
        ...     session.run(items).tolist(), users.shape.as_list()
        ([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0], [6.0, 7.0]], [1000, 16])
    """
    for what, value in (("caching_device", caching_device), ("variable_def", variable_def),
                        ("import_scope", import_scope)):
        if value is not None:
            raise ValueError("sok1x.Variable '{}': {}: got {!r}, expected None: a table's rows are made, and read, "
                             "where they are".format(name or "Variable", what, value))
    if not validate_shape:
        raise ValueError("sok1x.Variable '{}': validate_shape: got {!r}, expected True: the ranks must know how many "
                         "rows each has".format(name or "Variable", validate_shape))
    options = dict(trainable=trainable, name=name, dtype=dtype, constraint=constraint, shape=shape,
                   initializer=initializer, collections=collections)
    label, world = "sok1x.Variable '{}'".format(name or "Variable"), launch.current()
    placement = placement_of(label, mode)
    if world is not None:
        check_rank(label, placement, world.size)
    if placement.rank is None:
        return DistributedVariable(initial_value, **options)
    return LocalizedVariable(initial_value, placement.rank, **options)

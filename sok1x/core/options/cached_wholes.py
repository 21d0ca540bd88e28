"""Ops that compute with a whole variable of a table with a cache, which has the rows of the cache alone: refused.

They would leave out the rows that are in host memory; and what lies beside the rows, as the index, says where in that
memory they are: given from elsewhere, as by Keras' set_weights, it would lead to rows that are not there. A table's
constraint may assign its rows, for a step has changed no others than those that are in the cache.
"""
from typing import Any

import tensorflow.compat.v1 as tf

_TABLE = "_sok1x_cached_table"  # of what lies beside the rows of a table with a cache: its description


def refuse(variable: Any, table: Any, caller: str) -> None:
    """Raises if a variable is the rows, or an optimizer's slot, of a table with a cache.

    Args:
        variable: the variable.
        table: the description of the table to which it belongs, or None.
        caller: what is to write the whole of it: `assign_sub`.

    Raises:
        ValueError: the table has a cache.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> from sok1x.core.options import cached_wholes
        >>> with tf.Graph().as_default():
        ...     table = sok.DynamicVariable(2)
        ...     cached_wholes.refuse(table, table.table, "assign_sub")  # it has no cache
    """
    if table is None or table.cache is None:
        return
    what = "table '{}'".format(table.name)
    if variable.op.name != table.name:
        what = "slot '{}' of {}".format(variable.op.name, what)
    raise ValueError((
        "{}, which has all rows in host memory and some in a cache: got an op that computes with the whole {} ({}), as "
        "tf.train.AdamOptimizer, TensorFlow 2's tf.keras.optimizers (its SGD, too) and Keras' weight_decay do, and "
        "would leave out what is not in the cache. Use an optimizer that moves the rows of the batch (sok1x.SGD, "
        "tf.compat.v1.train.AdagradOptimizer, sok1x.tf.keras.optimizers.LazyAdamOptimizer), or sok1x.optimizers.Adam, "
        "which moves all").format(
            what, "slot" if what.startswith("slot") else "variable", caller))


def belongs(variable: Any, table: Any) -> Any:
    """Notes that a variable lies beside the rows of a table, if that has a cache.

    Args:
        variable: of the index, or of what a table with a cache has besides.
        table: the description.

    Returns:
        The variable.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> from sok1x.core.options import cached_wholes
        >>> with tf.Graph().as_default():
        ...     table = sok.DynamicVariable(2)
        ...     cached_wholes.belongs(table.stamps, table.table) is table.stamps
        True
    """
    if table.cache is not None:
        setattr(variable, _TABLE, table)
    return variable


def refuse_replacing(variable: Any, caller: str) -> None:
    """Raises if a variable is the rows of a table with a cache, or lies beside them.

    Args:
        variable: the variable.
        caller: what is to replace its value: `assign`.

    Raises:
        ValueError: so it is; and it has no constraint, which assigns rows.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> from sok1x.core.options import cached_wholes
        >>> with tf.Graph().as_default():
        ...     cached_wholes.refuse_replacing(sok.DynamicVariable(2), "assign")  # it has no cache
    """
    table = getattr(variable, _TABLE, None) or getattr(variable, "table", None)
    if table is None or table.cache is None:
        return
    if caller == "assign" and variable.op.name == table.name and variable.constraint is not None:
        return
    raise ValueError((
        "table '{}', which has all rows in host memory and some in a cache: got {} of '{}', expected none: what is in "
        "variables is the cache, and where the rows are, so that another value would lose rows or lead to none. Give "
        "rows to keys by sok.assign(table, keys, rows), and all of a table by sok.load or {}, not by get_weights and "
        "set_weights").format(table.name, caller, variable.op.name,
                              "sok.CheckpointManager" if tf.executing_eagerly() else
                              "a checkpoint, or Keras' save_weights and load_weights"))

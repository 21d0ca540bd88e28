"""Ops that compute with a whole variable of a table with a cache, which has the rows of the cache alone: refused.

They would leave out the rows that are in host memory. To assign rows is not refused, for a constraint does that after a
step, and the rows that a step has changed are all in the cache; slots have none.
"""
from typing import Any


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
        >>> from sok1x.core import cached_wholes
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
        "tf.train.AdamOptimizer's and Keras' weight_decay do, and would leave out what is not in the cache. Use an "
        "optimizer that moves the rows of the batch (tf.contrib.opt.LazyAdamOptimizer, "
        "sok1x.tf.keras.optimizers.LazyAdamOptimizer), or sok1x.optimizers.Adam, which moves all").format(
            what, "slot" if what.startswith("slot") else "variable", caller))

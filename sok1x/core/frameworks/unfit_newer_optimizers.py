"""Of Keras' newer optimizers (TensorFlow 2) what is not right for tables, refused when their slots are made.

Both look at a variable as a whole. A table's rows are spread over ranks, and some of a shard's belong to no key yet.
"""
from typing import Any

from sok1x.graph_ops.bridge import tensorflow_versions
from sok1x.graph_ops.gradients import provenance

_AVERAGE = "average"  # the slot of use_ema=True


def check(optimizer: Any, shard: Any, slot: str) -> None:
    """Looks whether an optimizer may make a slot of a table.

    Args:
        optimizer: one of the newer kind.
        shard: a table's variable.
        slot: the slot's name, as the optimizer has it: `average`, `m`.

    Raises:
        ValueError: it keeps averages of rows that have not come yet, or such that nobody can put in place, or means
            over rows that other ranks have.

    Example:
        >>> import tensorflow as tf
        >>> import sok1x as sok
        >>> from sok1x.core.frameworks import unfit_newer_optimizers
        >>> with tf.Graph().as_default():
        ...     unfit_newer_optimizers.check(tf.keras.optimizers.Adam(0.1), sok.EmbeddingVariable(8, 2), "m")
    """
    table = shard.table
    if slot == _AVERAGE and tensorflow_versions.in_plain_graph():
        raise ValueError((
            "embedding table '{}': got {} with use_ema=True in a tf.Graph, in which Keras never puts averages in the "
            "variables' place. Expected an optimizer without use_ema, and tf.train.ExponentialMovingAverage beside it, "
            "or a step in eager execution or a tf.function").format(table.name, type(optimizer).__name__))
    if slot == _AVERAGE and table.hashed:
        raise ValueError((
            "embedding table '{}': got {} with use_ema=True, whose averages begin with the values that a variable has "
            "when they are made: those of rows whose keys come later would begin with zeros, and the average that it "
            "puts in the rows' place be wrong. Expected a table that has all rows from the start (use_hashtable=False, "
            "or sok.Variable), or an optimizer without use_ema for this table").format(
                table.name, type(optimizer).__name__))
    if any(kind.__name__ == "Adafactor" for kind in type(optimizer).__mro__) and (
            table.hashed or provenance.ranks() > 1):
        raise ValueError((
            "embedding table '{}': got Adafactor, whose steps take means over all rows of a variable: a rank has some "
            "of a table's, and in a table that keys get rows of as they come some are nobody's yet. Expected another "
            "optimizer for this table, as Adagrad, which keeps as many numbers as rows have").format(table.name))

"""Optimizers' slots that begin anew, for rows that are in use no more, or are to be those of other keys."""
from typing import Any, Iterable

import tensorflow.compat.v1 as tf

from sok1x.core import eager, growing_slots
from sok1x.graph_ops.bridge.tensorflow_versions import ResourceVariable
from sok1x.graph_ops.stores import initial


def begin(session: Any, table: Any, slots: Iterable[Any]) -> None:
    """All of some slots of a table becomes what it begins with.

    Args:
        session: runs the initializers, of a graph's slots.
        table: the table's rows, a variable; None where the slots are a graph's.
        slots: variables. One after the other: each takes its size in memory once more until then.
    """
    for slot in slots:
        if slot.initializer is not None:
            session.run(slot.initializer)
        else:  # an eager one
            ResourceVariable.assign(slot, _beginning(table.table, slot))


def _beginning(table: Any, slot: Any) -> tf.Tensor:
    grown = growing_slots.slot_of(slot)
    if grown is not None:
        return initial.initial_slot(table, grown, slot.dtype.base_dtype, slot.shape.as_list()[1:])
    return tf.zeros_like(slot) + tf.cast(eager.begins_with(slot), slot.dtype)

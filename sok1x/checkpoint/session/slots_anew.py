"""Optimizers' slots that begin anew, for rows that are in use no more, or are to be those of other keys."""
from typing import Any, Iterable, List, NamedTuple, Optional

import tensorflow.compat.v1 as tf

from sok1x.core.eagerly import eager
from sok1x.core.tables import growing_slots
from sok1x.graph_ops.bridge.tensorflow_versions import ResourceVariable
from sok1x.graph_ops.stores import initial

_BYTES_TOGETHER = 64 << 20


class Anew(NamedTuple):
    """Slots that are to begin anew.

    Args:
        table: whose they are, a variable; None where the slots are a graph's.
        slots: variables.
        rows: about how many rows they have, where their shapes do not say; 0: not known.
    """

    table: Any
    slots: Iterable[Any]
    rows: int = 0


def begin(session: Any, table: Any, slots: Iterable[Any]) -> None:
    """As `begin_all`, of one table."""
    begin_all(session, [Anew(table, slots)])


def begin_all(session: Any, several: Iterable[Anew]) -> None:
    """All of some slots becomes what it begins with.

    Until then each takes its size in memory once more, so large ones begin one after the other. Small ones begin
    together: TensorFlow prepares a large graph anew for each new `session.run`, some ms a table.

    Args:
        session: runs the initializers, of a graph's slots.
        several: which slots.
    """
    together: List[Any] = []
    total = 0
    for anew in several:
        for slot in anew.slots:
            if slot.initializer is None:  # an eager one
                ResourceVariable.assign(slot, _beginning(anew.table.table, slot))
                continue
            size = _bytes(slot, anew.rows)
            if together and total + size > _BYTES_TOGETHER:
                session.run(together)
                together, total = [], 0
            together.append(slot.initializer)
            total += size
    if together:
        session.run(together)


def _bytes(slot: Any, rows: int) -> int:
    shape: Optional[List[Any]] = slot.shape.as_list() if slot.shape.rank is not None else None
    if shape and shape[0] is None and rows:
        shape[0] = rows
    elements = tf.TensorShape(shape).num_elements()
    return _BYTES_TOGETHER if elements is None else int(elements) * int(slot.dtype.size)


def _beginning(table: Any, slot: Any) -> tf.Tensor:
    grown = growing_slots.slot_of(slot)
    if grown is not None:
        return initial.initial_slot(table, grown, slot.dtype.base_dtype, slot.shape.as_list()[1:])
    return tf.zeros_like(slot) + tf.cast(eager.begins_with(slot), slot.dtype)

"""Optimizers' slots where a table's weights have been replaced: rows that have no key now begin anew there.

Slots are no weights, and stay as they are, row by row: who goes on from other weights puts them back apart, before or
after. But the next key to come gets a row without one, and would begin with what another key has left in its slots.
"""
from typing import Any, Iterable, List, NamedTuple

import numpy as np
import tensorflow.compat.v1 as tf

from sok1x import launch
from sok1x.core.eagerly import eager_slots
from sok1x.core.tables import growing_slots
from sok1x.graph_ops.bridge.tensorflow_versions import keras_backend, open_to_ops, resource_variable_ops

_OPS = "_sok1x_begin_rows"  # of a slot in a graph: its `_Ops`


def begin_anew(variables: Iterable[Any]) -> None:
    """Keras has assigned these variables, among them tables with their indices; on this rank.

    Args:
        variables: of one graph, or eager ones.

    Example:
        >>> from sok1x.core.frameworks import free_slot_rows
        >>> free_slot_rows.begin_anew([])  # no tables
    """
    given = {id(one): one for one in variables}
    tables = [one for one in given.values()
              if hasattr(one, "table_variables") and one.index and id(one.index[0]) in given]
    for table in tables if launch.current() is not None else ():
        slots = [slot for slot in _slots_of(table) if id(slot) not in given]
        if slots and tf.executing_eagerly():
            eager_slots.begin_free(slots, table)
        elif slots:
            _begin_free(slots, table)


def _slots_of(table: Any) -> List[Any]:
    from sok1x.checkpoint.session.tables import state_of  # which needs this module's neighbours
    return state_of(table).slots_besides(())


def _begin_free(slots: List[Any], table: Any) -> None:
    """In a graph."""
    session, ops = keras_backend.get_session(), [_ops_of(slot) for slot in slots]
    index, lengths = session.run([table.index[0], [one.length for one in ops]])  # of what is not initialized 0
    has_key = np.zeros(1 + max([*lengths, index[:, 1].max(initial=-1)]), bool)
    has_key[index[index[:, 1] >= 0, 1]] = True
    for one, length in zip(ops, lengths):
        rows = np.flatnonzero(~has_key[:length])
        if len(rows):
            session.run(one.begin, {one.rows: rows})


class _Ops(NamedTuple):
    """Of a graph's slot: how many rows it has; rows int64 [n], to feed; what begins them anew."""

    length: tf.Tensor
    rows: tf.Tensor
    begin: tf.Operation


def _ops_of(slot: Any) -> _Ops:
    """Made once."""
    if not hasattr(slot, _OPS):
        # Keras' own ops were made by an earlier set_weights, when there may have been no slots.
        with open_to_ops(slot.graph), slot.graph.as_default(), tf.control_dependencies(None), tf.device(slot.device):
            rows, known = tf.placeholder(tf.int64, [None]), growing_slots.slot_of(slot)
            length = tf.cond(slot.is_initialized(), lambda: resource_variable_ops.variable_shape(
                slot.handle, tf.int64)[0], lambda: tf.constant(0, tf.int64))
            values = tf.gather(slot.initial_value, rows) if known is None else tf.fill(tf.concat(
                [tf.shape(rows), slot.shape.as_list()[1:]], axis=0), tf.cast(known.value, slot.dtype.base_dtype))
            setattr(slot, _OPS, _Ops(length, rows, tf.raw_ops.ResourceScatterUpdate(
                resource=slot.handle, indices=rows, updates=values)))
    found: _Ops = getattr(slot, _OPS)
    return found

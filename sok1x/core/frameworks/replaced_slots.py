"""Optimizers' slots of tables whose weights Keras replaces: rows that get other keys, or lose theirs, begin anew there.

Slots are no weights. Those of keys whose rows stay theirs stay as they are; all others would be another key's.
"""
import contextlib
from typing import Any, Dict, Iterable, Iterator, List, NamedTuple, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

from sok1x import launch
from sok1x.core.eagerly import eager, eager_slots
from sok1x.core.tables import growing_slots
from sok1x.graph_ops.bridge.tensorflow_versions import keras_backend, resource_variable_ops

_OPS = "_sok1x_begin_rows"  # of a slot in a graph: see `_ops_of`


@contextlib.contextmanager
def begun_anew(variables: Iterable[Any]) -> Iterator[None]:
    """Inside, Keras assigns these variables, among them tables and their indices.

    Args:
        variables: of one graph, or eager ones.

    Example:
        >>> from sok1x.core.frameworks import replaced_slots
        >>> with replaced_slots.begun_anew([]):
        ...     pass  # no tables
    """
    given = {id(one): one for one in variables}
    tables = [one for one in given.values() if hasattr(one, "table_variables") and one.index and
              id(one.index[0]) in given and one.table.cache is None]
    found = _slots_of(tables, given) if tables and launch.current() is not None else []
    if tf.executing_eagerly():
        before = [eager_slots.keys_of_rows(table) for table, _ in found]
        yield
        for (table, slots), then in zip(found, before):
            eager_slots.fit(table)
            eager_slots.begin_others(slots, table, *then)
        return
    session = keras_backend.get_session() if found else None
    ops = [[_ops_of(slot, table) for slot in slots] for table, slots in found]
    indices = [session.run(table.index[0]) for table, _ in found]
    yield
    for (table, _), of_slots, index in zip(found, ops, indices):
        rows = _rows_of_others(index, session.run(table.index[0]))
        ready = session.run([one.ready for one in of_slots]) if len(rows) else []
        for one in [one for one, has_values in zip(of_slots, ready) if has_values]:
            session.run(one.fit)
            session.run(one.begin, {one.rows: rows[rows < session.run(one.length)]})  # a shorter one grows anew


def _slots_of(tables: List[Any], given: Dict[int, Any]) -> List[Tuple[Any, List[Any]]]:
    """Tables with those of their slots that are not given values, too; without tables that have none."""
    from sok1x.checkpoint.session.tables import tables_of  # which needs this module's neighbours
    graph = eager.graph() if tf.executing_eagerly() else tables[0].graph
    states = {id(state.variable): state for state in tables_of(graph)}
    found = [(table, [slot for slot in states[id(table)].slots_besides(()) if id(slot) not in given])
             for table in tables if id(table) in states]
    return [(table, slots) for table, slots in found if slots]


def _rows_of_others(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """int64 [n]: the rows of which a table has the keys no more that it had; each is (key, row) [C, 2] of its index."""
    rows = 1 + max(int(index[:, 1].max(initial=-1)) for index in (before, after))
    keys, has = np.zeros([2, rows], np.int64), np.zeros([2, rows], bool)
    for place, index in enumerate((before, after)):
        taken = index[index[:, 1] >= 0]
        keys[place, taken[:, 1]], has[place, taken[:, 1]] = taken[:, 0], True
    return np.flatnonzero((has[0] != has[1]) | (keys[0] != keys[1]))


class _Ops(NamedTuple):
    """Of a graph's slot: whether it has values; what gives it as many rows as the table has, where that grows; how many
    it has; rows int64 [n], to feed; what begins them anew."""

    ready: tf.Tensor
    fit: List[tf.Operation]
    length: tf.Tensor
    rows: tf.Tensor
    begin: tf.Operation


def _ops_of(slot: Any, table: Any) -> _Ops:
    """Made once."""
    if not hasattr(slot, _OPS):
        with slot.graph.as_default(), tf.control_dependencies(None), tf.device(slot.device):
            rows, known, fit = tf.placeholder(tf.int64, [None]), growing_slots.slot_of(slot), []
            if known is None:
                values = tf.gather(slot.initial_value, rows)
            else:
                there, wanted = slot.read_value(), resource_variable_ops.variable_shape(table.handle)[0]
                missing = tf.maximum(0, wanted - tf.shape(there)[0])
                fit = [tf.raw_ops.AssignVariableOp(resource=slot.handle, value=tf.concat(
                    [there[:wanted], _begun(slot, missing, known)], axis=0))]
                values = _begun(slot, tf.size(rows), known)
            setattr(slot, _OPS, _Ops(
                slot.is_initialized(), fit, resource_variable_ops.variable_shape(slot.handle)[0], rows,
                tf.raw_ops.ResourceScatterUpdate(resource=slot.handle, indices=rows, updates=values)))
    found: _Ops = getattr(slot, _OPS)
    return found


def _begun(slot: Any, rows: tf.Tensor, known: Any) -> tf.Tensor:
    """What so many rows of a slot of a table that grows begin with."""
    return tf.fill([rows] + slot.shape.as_list()[1:], tf.cast(known.value, slot.dtype.base_dtype))

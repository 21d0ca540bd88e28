"""Tables of a graph that get other rows: what has been noted of the rows before is void from then on.

It is noted when rows changed and which keys have left, for dumps by time and `sok.evicted_keys`; and slots of a table's
optimizer that are not restored with it would be another key's.
"""
import contextlib
from typing import Any, Iterable, Iterator, List, Optional

import tensorflow.compat.v1 as tf

from sok1x import launch
from sok1x.checkpoint.savers.values_if_any import ValuesIfAny
from sok1x.checkpoint.session import slots_anew
from sok1x.checkpoint.session.tables import TableState, tables_of
from sok1x.graph_ops.stores.step_at import time_of_restore


@contextlib.contextmanager
def restored(session: tf.Session, variables: Iterable[Any]) -> Iterator[None]:
    """Inside, TensorFlow alone restores these variables of the session's graph, on one rank.

    Args:
        session: in which it does; by then `sok1x.Init` has run, or there is nothing to note.
        variables: all that is restored.
    """
    given = {id(variable) for variable in variables}
    tables = [TableState(table.variable, {part: made for part, made in table.parts.items() if id(made) in given})
              for table in (tables_of(session.graph) if launch.current() is not None else [])
              if id(table.variable) in given]
    if not tables:
        yield
        return
    others = other_slots(session, [
        table for table in tables if table.variable.index and id(table.variable.index[-1]) in given])
    with noted(session, tables):
        yield
    slots_anew.begin(session, None, others or [])


@contextlib.contextmanager
def noted(session: tf.Session, tables: List[TableState]) -> Iterator[None]:
    """Inside, the session gives these tables other rows, on this rank."""
    steps = ValuesIfAny([table.variable.steps for table in tables])
    before = steps.read(session)
    yield
    # A table that was not there may have got its rows alone.
    after = before if None not in before else steps.read(session)
    ops = [(*table.variable.step_at, step or 0) for table, step, now in zip(tables, before, after) if now is not None]
    session.run([found for _, found, _ in ops], {time: time_of_restore(step) for time, _, step in ops})


def other_slots(session: tf.Session, tables: List[TableState]) -> Optional[List[Any]]:
    """Slots that are not restored of tables in use, whose keys will have other rows: each would be another key's.

    Args:
        session: has the tables.
        tables: those that are restored, of tables with keys, with those of their slots that are.

    Returns:
        Variables; None where there are no such slots on any rank.
    """
    held = {table.name: table for table in tables}
    found = {state.name: state.slots_besides({slot.op.name for slot in held[state.name].parts.values()})
             for state in tables_of(session.graph) if state.name in held}
    if not any(found.values()):
        return None
    # In a new session a table has no rows, and its slots may have been restored by another Saver.
    used = dict(zip(held, ValuesIfAny([table.variable.index[-1] for table in held.values()]).read(session)))
    return [slot for name, slots in found.items() if used[name] for slot in slots]

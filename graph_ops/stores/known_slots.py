"""Which slots optimizers have made for tables that grow: those grow with the rows.

An op has its variables for good when it is built, and a lookup is built before the optimizer makes its slots. So a slot
is noted here when it is made, with its table, in its graph; and once more when its initializer runs, in the session,
for graphs that another process has built.
"""
from typing import Any, Dict, List, NamedTuple, Set

import tensorflow.compat.v1 as tf

from sok1x.graph_ops.bridge import plan
from sok1x.graph_ops.bridge.errors import FAILED_PRECONDITION, CallError
from sok1x.graph_ops.stores.table import Table


class Slot(NamedTuple):
    """A variable [V, ...] beside a table's rows.

    Attributes:
      name, container: by which the session knows it. value: a new row's.
    """

    name: str
    container: str
    value: float


_SESSIONS_REMEMBERED = 1000
_of_sessions: Dict[int, Dict[str, Set[Slot]]] = {}  # session -> table's name -> slots


def note_made(graph: tf.Graph, table: str, slot: Slot) -> None:
    """Notes a slot that has been made in a graph; table: a name."""
    plan.of(graph).slots.setdefault(table, set()).add(slot)


def note_initialized(request: Any, table: str, *slots: Slot) -> None:
    """Notes slots that a request initializes, or, without any, that the table's rows are being initialized."""
    if len(_of_sessions) >= _SESSIONS_REMEMBERED and request.session not in _of_sessions:
        _of_sessions.clear()
    _of_sessions.setdefault(request.session, {}).setdefault(table, set()).update(slots)


def of(request: Any, table: Table) -> List[Slot]:
    """The slots of a table in a request's graph and session, of which some may have no value yet; in order of names.

    Raises:
      CallError: FAILED_PRECONDITION where they cannot be known.
    """
    of_graph = plan.get(request.plan)
    initialized = _of_sessions.get(request.session, {}).get(table.name)
    if of_graph is None and initialized is None:
        raise CallError(FAILED_PRECONDITION, (
            "embedding table '{}' cannot get more rows in this session: its graph was built by another process, and "
            "has been restored without its initializers, so that the optimizer's slots are not known. Run "
            "tf.global_variables_initializer() before the Saver, or build the model anew").format(table.name))
    slots = set(initialized or ()) | (set() if of_graph is None else of_graph.slots.get(table.name, set()))
    return sorted(slots)
